from __future__ import annotations

import hashlib
import re

import pytest
import torch

from expdb.demo.batches import ByteBatches, MixBatches
from expdb.demo.build import build_data
from expdb.demo.data import MicroConfig, MixConfig, load_data
from expdb.demo.evaluate import evaluate, evaluate_sources
from expdb.demo.layers import DenseConfig
from expdb.demo.micro import FAMILIES, ORDERS, family_lines, micro_text
from expdb.demo.model import Decoder
from expdb.errors import BadInput

MIX = {"pydoc": 2.0, "brackets": 1.0, "facts": 1.0}


# ------------------------------------------------------------------------------------ micro


def test_micro_is_the_same_bytes_on_every_machine():
    train, val = micro_text("micro")
    assert (len(train), len(val)) == (57_998, 6_574)
    assert hashlib.sha256(train).hexdigest()[:16] == "c90a92e28f1f97ee"
    data = load_data(MicroConfig(), seq_len=128)
    assert data.digest_train == hashlib.sha256(train).hexdigest()
    assert data.digest_val == hashlib.sha256(val).hexdigest()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parts_of_a_family_share_no_line(family):
    train, val = family_lines(family)
    assert not set(train) & set(val)
    assert 50 < len(val) < len(train)


def is_right(line: str) -> bool:
    if (found := re.fullmatch(r"(\d+)\+(\d+)=(\d+)", line)) is not None:
        return int(found[1]) + int(found[2]) == int(found[3])
    if (found := re.fullmatch(r"([(\[{]+) -> ([)\]}]+)", line)) is not None:
        return found[1] == found[2][::-1].translate(str.maketrans(")]}", "([{"))
    if (found := re.fullmatch(r"(\w+) (\w+): (\w+)", line)) is not None:
        return ORDERS[found[1]](found[2]) == found[3]
    return False


@pytest.mark.parametrize("family", ["arithmetic", "instructions", "brackets"])
def test_every_answer_is_right(family):
    assert all(is_right(line) for lines in family_lines(family) for line in lines)
    assert not is_right("1+1=3")


def test_the_facts_held_out_are_trained_on_in_the_other_words_only():
    train, val = family_lines("facts")
    lives = dict(re.fullmatch(r"(\w+) lives in (\w+)\.", x).groups() for x in train if " in " in x)
    homes = dict(re.fullmatch(r"The home of (\w+) is (\w+)\.", x).groups() for x in val)
    assert len(homes) == 60
    assert homes == {person: lives[person] for person in homes}
    assert not any(f"of {person} is" in line for person in homes for line in train)
    assert len(train) == 300 + 240


# ------------------------------------------------------------------------------------- mix


def mix(seed: int = 0, **more: object) -> MixBatches:
    texts = {
        name: torch.full((length,), value, dtype=torch.uint8)
        for name, length, value in (("a", 30, 1), ("b", 17, 2), ("c", 400, 3))
    }
    weights = {"a": 1.0, "b": 1.0, "c": 2.0}
    return MixBatches(texts, weights, batch_size=8, seq_len=16, seed=seed, **more)


def test_a_sequence_is_of_one_source_and_sources_come_by_weight():
    loader = mix()
    tokens = torch.cat([next(loader)["tokens"] for _ in range(500)])
    assert torch.all(tokens == tokens[:, :1])
    seen = {name: int((tokens[:, 0] == value).sum()) for value, name in enumerate("abc", start=1)}
    assert loader.counts == seen
    assert [seen[name] / 4000 for name in "abc"] == pytest.approx([0.25, 0.25, 0.5], abs=0.03)


def test_every_start_of_a_source_can_come_including_the_last():
    texts = {"a": torch.arange(19, dtype=torch.uint8), "b": torch.arange(100, 118).byte()}
    weights = {"a": 1.0, "b": 1.0}
    loader = MixBatches(texts, weights, batch_size=100, seq_len=16, seed=0)
    assert set(next(loader)["tokens"][:, 0].tolist()) == {0, 1, 2, 100, 101}


def test_a_mix_goes_on_exactly_where_its_state_was_taken(tmp_path):
    straight = mix(1)
    for _ in range(7):
        next(straight)
    torch.save(straight.state_dict(), tmp_path / "state.pt")
    resumed = mix(99)
    next(resumed)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for _ in range(5):
        assert torch.equal(next(resumed)["tokens"], next(straight)["tokens"])
    assert resumed.counts == straight.counts
    assert sum(resumed.counts.values()) == 12 * 8
    assert not torch.equal(next(mix(1))["tokens"], next(mix(2))["tokens"])


def test_a_mix_is_its_sources_and_is_judged_on_each_of_them():
    config = {"kind": "mix", "sources": MIX, "limit_bytes": 5000}
    data, loader = build_data(config, seq_len=32, seed=0)
    assert tuple(data.held_out) == tuple(data.sources) == tuple(MIX)
    assert bytes(data.sources["facts"].train.tolist()) == micro_text("facts")[0][:5000]
    assert data.num_train_bytes == 15_000
    joined = b"".join(bytes(one.tolist()) for one in data.held_out.values())
    assert data.digest_val == hashlib.sha256(joined).hexdigest()
    assert set(loader.counts) == set(MIX)

    torch.set_num_threads(1)
    shape = DenseConfig(d=16, layers=1, heads=2, hidden=16, seq_len=32, init_std=0.3)
    model = Decoder(shape, generator=torch.Generator().manual_seed(0))
    texts = {name: text[:700] for name, text in data.held_out.items()}
    found = evaluate_sources(model, texts, seq_len=32)
    alone = {name: evaluate(model, text, seq_len=32)["val/loss"] for name, text in texts.items()}
    assert {name: found[f"val/{name}/loss"] for name in texts} == alone
    assert found["val/loss"] == pytest.approx(sum(alone.values()) / 3)
    assert len(set(alone.values())) == 3
    assert set(evaluate(model, texts["facts"], seq_len=32)) == {"val/loss", "val/ppl"}


def test_one_text_has_no_sources_to_count():
    data, loader = build_data({"kind": "micro"}, seq_len=32, seed=0)
    assert list(data.held_out) == [""]
    assert loader.counts == {}


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"sources": {}}, "names no source"),
        ({"sources": {"pydocs": 1}}, r"unknown source `data\.sources\.pydocs`"),
        ({"sources": {"pydoc": 0}}, "positive number, not 0"),
        ({"sources": {"pydoc": "half"}}, r"`data\.sources\.pydoc` must be a number"),
        ({"sources": ["pydoc"]}, "a mapping of names to numbers"),
        ({}, r"`data\.sources` has no value"),
        ({"sources": {"text": 1.0}}, r"`data\.path` has no value"),
        ({"sources": {"text": 1.0}, "path": "none.txt"}, "does not exist"),
        ({"sources": {"facts": 1.0}, "limit_bytes": 20}, "training text of `facts` has 20 bytes"),
    ],
)
def test_unusable_mixes_are_bad_input(values, match):
    with pytest.raises(BadInput, match=match):
        build_data({"kind": "mix", **values}, seq_len=32, seed=0)


def test_a_users_text_can_be_a_source(tmp_path):
    path = tmp_path / "book.txt"
    path.write_bytes(b"one two three " * 200)
    data = load_data(MixConfig(sources={"text": 1.0, "facts": 1.0}, path=str(path)), seq_len=32)
    assert data.sources["text"].name == "book.txt"
    assert (data.name, data.sources["text"].num_val_bytes) == ("mix", 140)


# ---------------------------------------------------------------------------------- faults


def batches(**more: object) -> ByteBatches:
    text = torch.arange(200, dtype=torch.uint8)
    return ByteBatches(text, batch_size=3, seq_len=16, seed=1, **more)


def taken(loader: ByteBatches, count: int) -> list[torch.Tensor]:
    return [next(loader)["tokens"] for _ in range(count)]


@pytest.mark.parametrize("make", [batches, mix])
def test_a_bad_batch_is_random_bytes_and_leaves_the_others(make):
    good, bad = taken(make(), 6), taken(make(bad=[2, 3]), 6)
    assert [torch.equal(a, b) for a, b in zip(good, bad, strict=True)] == [
        True, True, False, False, True, True,
    ]  # fmt: skip
    assert bad[2].shape == good[2].shape
    assert bad[2].dtype == torch.int64
    assert bad[2].max() > 200
    assert not torch.equal(bad[2], bad[3])


@pytest.mark.parametrize("make", [batches, mix])
def test_a_skipped_batch_is_left_out_and_the_numbers_stay(make):
    good = taken(make(), 6)
    kept = taken(make(bad=[2, 3], skip=[2, 3]), 4)
    assert all(torch.equal(a, b) for a, b in zip([*good[:2], *good[4:]], kept, strict=True))


def test_a_bad_batch_is_the_same_one_after_a_resume_and_skipping_avoids_it():
    straight = batches(bad=[4])
    expected = taken(straight, 6)
    first = batches(bad=[4])
    taken(first, 3)
    for skip, left in (((), expected[3:]), ((4,), [expected[3], expected[5]])):
        resumed = batches(bad=[4], skip=skip)
        resumed.load_state_dict(first.state_dict())
        found = taken(resumed, len(left))
        assert all(torch.equal(a, b) for a, b in zip(found, left, strict=True))


def test_faults_are_read_from_the_config():
    section = {"kind": "pydoc", "bad_batches": [0], "batch_size": 40}
    good = next(build_data({"kind": "pydoc", "batch_size": 40}, seq_len=64, seed=0)[1])["tokens"]
    bad = next(build_data(section, seq_len=64, seed=0)[1])["tokens"]
    assert good.unique().numel() < 110
    assert bad.unique().numel() > 240
    with pytest.raises(BadInput, match="a list of whole numbers"):
        build_data({"kind": "pydoc", "bad_batches": 3}, seq_len=64, seed=0)
    with pytest.raises(BadInput, match=r"`data\.skip_batches` must be batch numbers"):
        build_data({"kind": "pydoc", "skip_batches": [-1]}, seq_len=64, seed=0)
