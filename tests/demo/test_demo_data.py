from __future__ import annotations

import hashlib
import random
import sys

import numpy as np
import pytest
import torch

from expdb.demo.batches import ByteBatches
from expdb.demo.build import build_data
from expdb.demo.data import PydocConfig, TextConfig, load_data, read_topics, split_topics
from expdb.errors import BadInput

TEXT = bytes(range(256)) * 20


def loader(seed: int = 0) -> ByteBatches:
    text = torch.frombuffer(bytearray(TEXT), dtype=torch.uint8)
    return ByteBatches(text, batch_size=3, seq_len=16, seed=seed)


def tokens_of(batches: ByteBatches, count: int) -> torch.Tensor:
    return torch.stack([next(batches)["tokens"] for _ in range(count)])


def test_topics_are_split_by_name_every_tenth_apart():
    names = [f"t{i:02}" for i in range(25)]
    train, val = split_topics(reversed(names))
    assert val == ["t00", "t10", "t20"]
    assert not set(train) & set(val)
    assert sorted(train + val) == names


def test_pydoc_parts_are_whole_topics_of_one_side():
    data = load_data(PydocConfig(), seq_len=128)
    topics = read_topics()
    train, val = split_topics(topics)
    held_out = bytes(data.val.tolist())
    assert held_out == "\n\n".join(topics[name] for name in val).encode()
    assert data.num_train_bytes == len("\n\n".join(topics[name] for name in train).encode())
    assert data.digest_val == hashlib.sha256(held_out).hexdigest()
    assert (data.train.dtype, data.name) == (torch.uint8, "pydoc")


@pytest.mark.skipif(sys.version_info[:3] != (3, 11, 7), reason="the text differs by version")
def test_pydoc_sizes_of_python_3_11_7():
    data = load_data(PydocConfig(), seq_len=128)
    assert (data.num_train_bytes, data.num_val_bytes) == (434_049, 32_222)


def test_a_python_without_the_topics_names_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(BadInput, match="comes without") as caught:
        load_data(PydocConfig(), seq_len=128)
    assert caught.value.hints == ("python train.py data=text data.path=FILE",)


def test_a_limit_cuts_the_training_part_only():
    whole = load_data(PydocConfig(), seq_len=128)
    cut = load_data(PydocConfig(limit_bytes=12_000), seq_len=128)
    assert cut.num_train_bytes == 12_000
    assert torch.equal(cut.train, whole.train[:12_000])
    assert cut.digest_val == whole.digest_val
    assert cut.digest_train != whole.digest_train
    with pytest.raises(BadInput, match="training text of `pydoc` has 100 bytes"):
        load_data(PydocConfig(limit_bytes=100), seq_len=128)


def test_a_text_file_gives_its_last_twentieth_to_validation(tmp_path):
    path = tmp_path / "book.txt"
    path.write_bytes(TEXT)
    data = load_data(TextConfig(path=str(path)), seq_len=16)
    assert data.name == "book.txt"
    assert (data.num_train_bytes, data.num_val_bytes) == (5120 - 256, 256)
    assert bytes(data.train.tolist()) + bytes(data.val.tolist()) == TEXT


def test_text_file_faults_are_bad_input(tmp_path):
    short = tmp_path / "short.txt"
    short.write_bytes(b"x" * 2579)
    with pytest.raises(BadInput, match="has 2579 bytes; 2580 are needed"):
        load_data(TextConfig(path=str(short)), seq_len=128)
    with pytest.raises(BadInput, match="does not exist"):
        load_data(TextConfig(path=str(tmp_path / "none.txt")), seq_len=128)
    with pytest.raises(BadInput, match="is not a file"):
        load_data(TextConfig(path=str(tmp_path)), seq_len=128)
    short.write_bytes(b"x" * 2580)
    assert load_data(TextConfig(path=str(short)), seq_len=128).num_val_bytes == 129


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"kind": "text"}, "`data.path` has no value"),
        ({"kind": "text", "path": "???"}, "`data.path` has no value"),
        ({"kind": "pydocs"}, "unknown `data.kind` `pydocs`"),
        ({"kind": "pydoc", "batchsize": 3}, "unknown key `data.batchsize`"),
        ({"kind": "pydoc", "batch_size": 0}, "batch_size"),
        ({"kind": "pydoc", "batch_size": 1.5}, "must be a whole number, not 1.5"),
        ({"kind": "pydoc", "limit_bytes": 0}, "limit_bytes"),
    ],
)
def test_unusable_data_sections_are_bad_input(config, match):
    with pytest.raises(BadInput, match=match):
        build_data(config, seq_len=128, seed=0)


def test_batches_are_windows_of_the_text():
    batch = next(loader())
    assert batch["tokens"].shape == (3, 17)
    assert batch["tokens"].dtype == torch.int64
    steps = (batch["tokens"][:, 1:] - batch["tokens"][:, :-1]) % 256
    assert torch.all(steps == 1)
    assert loader().tokens_per_batch == 3 * 16


def test_every_start_can_come_including_the_last():
    text = torch.arange(19, dtype=torch.uint8)
    batches = ByteBatches(text, batch_size=100, seq_len=16, seed=0)
    assert set(next(batches)["tokens"][:, 0].tolist()) == {0, 1, 2}


def test_the_seed_decides_the_batches():
    assert torch.equal(tokens_of(loader(1), 5), tokens_of(loader(1), 5))
    assert not torch.equal(tokens_of(loader(1), 5), tokens_of(loader(2), 5))


def test_a_loaded_state_continues_with_the_very_next_batch(tmp_path):
    straight = loader(1)
    tokens_of(straight, 7)
    torch.save(straight.state_dict(), tmp_path / "state.pt")
    expected = tokens_of(straight, 6)
    resumed = loader(99)
    tokens_of(resumed, 2)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(tokens_of(resumed, 6), expected)
    assert resumed.state_dict()["num_batches"] == 13


def test_batches_leave_every_global_generator_alone():
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    tokens_of(loader(), 10)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]
    torch.manual_seed(123)
    first = tokens_of(loader(), 3)
    torch.manual_seed(321)
    assert torch.equal(tokens_of(loader(), 3), first)


def test_a_text_shorter_than_a_window_is_bad_input():
    with pytest.raises(BadInput, match="has 16 bytes; a window takes 17"):
        ByteBatches(torch.zeros(16, dtype=torch.uint8), batch_size=1, seq_len=16, seed=0)
