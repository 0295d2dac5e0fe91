"""Overlap of validation and training text, splits, documents, and the bytes of a parameter."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from expdb.actions.probe import overlap as overlap_module
from expdb.actions.probe.documents import documents, files_of
from expdb.actions.probe.estimate import OPTIMIZERS, estimate, known_optimizer
from expdb.actions.probe.overlap import Overlap, overlap, words_of
from expdb.actions.probe.split import choose, split
from expdb.errors import BadInput, Refused

VOCABULARY = [f"w{number}" for number in range(5000)]
README_INFERENCE = {256: 13.29, 512: 13.63, 1024: 14.47, 2048: 16.37, 4096: 21.25}
"""Peak GB of inference of DeepSeek-LLM 7B at batch 1, by length: its README, one A100-40GB."""


def text(chance: random.Random, num: int = 40) -> str:
    return " ".join(chance.choices(VOCABULARY, k=num))


def write(path: Path, texts: list[str], **fields: list[str]) -> Path:
    lines = [
        json.dumps({"text": one, **{name: values[i] for name, values in fields.items()}})
        for i, one in enumerate(texts)
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def compared(train: Path, val: Path, **options: int) -> Overlap:
    return overlap(documents([train]), documents([val]), **options)


class Test_overlap:
    @pytest.fixture
    def sides(self, tmp_path: Path) -> tuple[list[str], list[str]]:
        chance = random.Random(1)
        return [text(chance) for _ in range(300)], [text(chance) for _ in range(100)]

    def test_a_clean_split_has_none(self, sides, tmp_path: Path) -> None:
        train, val = sides
        found = compared(write(tmp_path / "t.jsonl", train), write(tmp_path / "v.jsonl", val))
        assert (found.num_found, found.share, found.examples) == (0, 0.0, ())
        assert (found.num_train, found.num_val, found.num_short) == (300, 100, 0)

    def test_five_planted_of_a_hundred_are_five_per_cent(self, sides, tmp_path: Path) -> None:
        train, val = sides
        for number in (3, 20, 41):
            train[7 * number] = val[number].upper() + "!"  # letters' case and marks do not count
        for number in (60, 88):
            middle = " ".join(val[number].split()[11:25])
            train[number] = f"{text(random.Random(2), 9)} {middle} {text(random.Random(3), 9)}"
        found = compared(write(tmp_path / "t.jsonl", train), write(tmp_path / "v.jsonl", val))
        assert found.share == 0.05
        assert (found.num_exact, found.num_words) == (3, 2)
        assert [one.val for one in found.examples] == [
            "v.jsonl:4", "v.jsonl:21", "v.jsonl:42", "v.jsonl:61", "v.jsonl:89",
        ]  # fmt: skip
        assert found.examples[0].train == "t.jsonl:22"
        assert found.examples[3].words == " ".join(val[60].split()[11:24])

    def test_twelve_words_are_none_and_thirteen_are(self, sides, tmp_path: Path) -> None:
        train, val = sides
        for num, expected in ((12, 0), (13, 1)):
            train[5] = "before " + " ".join(val[9].split()[3 : 3 + num]) + " after"
            found = compared(write(tmp_path / "t.jsonl", train), write(tmp_path / "v.jsonl", val))
            assert found.num_found == expected
        assert compared(tmp_path / "t.jsonl", tmp_path / "v.jsonl", n=14).num_found == 0

    def test_a_short_document_counts_as_a_whole_alone(self, tmp_path: Path) -> None:
        train = write(tmp_path / "t.jsonl", ["7 + 5 = 12", "the sky is blue and more than that"])
        val = write(tmp_path / "v.jsonl", ["7+5=12", "the sky is blue", "2 + 2 = 4"])
        found = compared(train, val)
        assert (found.num_exact, found.num_found, found.num_short) == (1, 1, 3)

    def test_equal_hashes_are_not_taken_for_equal_words(
        self, sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import numpy as np

        monkeypatch.setattr(
            overlap_module, "_rolled", lambda words, n: np.zeros(len(words) - n + 1, np.uint64)
        )
        train, val = (
            write(tmp_path / "t.jsonl", sides[0][:5]),
            write(tmp_path / "v.jsonl", sides[1][:5]),
        )
        assert compared(train, val).num_found == 0

    def test_letters_of_chinese_are_words(self) -> None:
        assert words_of("Don't 天气很好 x2") == ["don", "t", "天", "气", "很", "好", "x2"]


class Test_documents:
    def read(self, path: Path, content: str, **options: str) -> list[tuple[int, str]]:
        path.write_text(content)
        return [(one.number, one.text.strip()) for one in documents([path], **options)]

    def test_blocks_and_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        assert self.read(path, "a\nb\n\n\nc\n") == [(1, "a\nb"), (2, "c")]
        assert self.read(path, "a\nb\nc\n\n") == [(1, "a"), (2, "b"), (3, "c")]
        assert self.read(path, "") == []

    def test_fields(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        lines = '{"id": 1, "text": "x", "b": "y"}\n\n{"q": "one", "a": "two"}\n'
        assert self.read(path, lines) == [(1, "x"), (3, "one\ntwo")]
        assert self.read(path, '{"b": "y"}\n', field="b") == [(1, "y")]

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("{]\n", "a.jsonl line 1 is no JSON"),
            ('{"text": "x"}\n[1]\n', "line 2 is no JSON object"),
            ('{"n": 1}\n', "line 1 has no text"),
            ("\xff", "is no UTF-8 text"),
        ],
    )
    def test_what_is_none_is_named(self, tmp_path: Path, content: str, said: str) -> None:
        path = tmp_path / "a.jsonl"
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(BadInput, match=said):
            list(documents([path]))

    def test_folders_and_what_is_missing(self, tmp_path: Path) -> None:
        (tmp_path / "in/deep").mkdir(parents=True)
        (tmp_path / "in/deep/b.txt").write_text("b")
        (tmp_path / "in/a.txt").write_text("a")
        names = [one.name for one in files_of(["in", "in/a.txt"], here=tmp_path, what="--val")]
        assert names == ["a.txt", "b.txt"]
        with pytest.raises(BadInput, match="--val nothing is neither a file nor a folder"):
            files_of(["nothing"], here=tmp_path, what="--val")


class Test_split:
    SIZES = {"maths": 70, "code": 23, "chat": 6, "rare": 1}  # noqa: RUF012

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        tasks = [name for name, num in self.SIZES.items() for _ in range(num)]
        random.Random(0).shuffle(tasks)
        return write(tmp_path / "all.jsonl", [f"item {i}" for i in range(100)], task=tasks)

    def tasks(self, path: Path) -> Counter[str]:
        return Counter(json.loads(line)["task"] for line in path.read_text().splitlines())

    @pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.07])
    def test_every_stratum_keeps_its_share_within_an_item(
        self, file: Path, tmp_path: Path, share: float
    ) -> None:
        made = split(file, tmp_path / "out", by="task", share=share, seed=4)
        val, train = (
            self.tasks(tmp_path / "out/val.jsonl"),
            self.tasks(tmp_path / "out/train.jsonl"),
        )
        assert val + train == Counter(self.SIZES)
        assert val.total() == round(share * 100) == made.num_val
        for name, num in self.SIZES.items():
            assert abs(val[name] - share * num) < 1
        kept = (tmp_path / "out/val.jsonl").read_text() + (tmp_path / "out/train.jsonl").read_text()
        assert sorted(kept.splitlines()) == sorted(file.read_text().splitlines())

    def test_the_seed_is_kept_and_takes_the_same_items(self, file: Path, tmp_path: Path) -> None:
        for name, seed in (("a", 4), ("b", 4), ("c", 5)):
            split(file, tmp_path / name, by="task", share=0.2, seed=seed)
        first, again, other = ((tmp_path / n / "val.jsonl").read_text() for n in "abc")
        assert first == again != other
        kept = json.loads((tmp_path / "a/split.json").read_text())
        assert (kept["seed"], kept["share"], kept["by"], kept["val"]) == (4, 0.2, "task", 20)
        assert {"name": "code", "train": 18, "val": 5} in kept["strata"]

    def test_a_stratum_is_drawn_whatever_the_others_are(self) -> None:
        names = ["a"] * 30 + ["b"] * 10
        alone = choose(["a"] * 30, share=0.2, seed=1)
        assert alone == {one for one in choose(names, share=0.2, seed=1) if one < 30}

    def test_nothing_is_written_over_or_left_half(self, file: Path, tmp_path: Path) -> None:
        split(file, tmp_path / "out", by=None, share=0.1, seed=0)
        with pytest.raises(Refused, match=r"train\.jsonl exists already"):
            split(file, tmp_path / "out", by=None, share=0.1, seed=1)
        with pytest.raises(BadInput, match="leaves one side without any"):
            split(file, tmp_path / "new", by=None, share=0.001, seed=0)
        with pytest.raises(BadInput, match="has no kind that is a word"):
            split(file, tmp_path / "new", by="kind", share=0.1, seed=0)
        assert not (tmp_path / "new").exists()


class Test_bytes_of_a_parameter:
    @pytest.mark.parametrize(
        ("precision", "optimizer", "each"),
        [
            ("fp32", "adamw", (4, 4, 8, 16)),
            ("bf16", "adamw", (2, 2, 4, 8)),
            ("bf16-master", "adamw", (2, 2, 12, 16)),
            ("bf16-master-fp32-grads", "adamw", (2, 4, 12, 18)),
            ("fp32", "sgd", (4, 4, 0, 8)),
            ("fp32", "sgd-momentum", (4, 4, 4, 12)),
        ],
    )
    def test_the_table(self, precision: str, optimizer: str, each: tuple[int, ...]) -> None:
        found = estimate(1000, precision=precision, optimizer=optimizer)
        assert (*found.per_param.values(), found.training_per_param) == each
        assert found.training == 1000 * each[3]

    def test_seven_billion_are_112_gb_before_activations(self) -> None:
        found = estimate(7 * 10**9, precision="fp32", optimizer="AdamW")
        assert found.training == 112 * 10**9
        assert found.of("optimizer") == 56 * 10**9  # 8 bytes a parameter, not 8 times the weights

    def test_a_peak_of_inference_is_none_of_training(self) -> None:
        bf16 = estimate(6_910_365_696, precision="bf16", optimizer="adamw")
        gb = 1024**3
        for peak in README_INFERENCE.values():
            assert bf16.inference / gb < peak < bf16.training / gb
        assert bf16.inference / gb == pytest.approx(12.87, abs=0.01)

    def test_what_is_not_known_is_said(self) -> None:
        with pytest.raises(BadInput, match="no optimizer is called magic"):
            estimate(1, precision="fp32", optimizer="magic")
        with pytest.raises(BadInput, match="no precision is called fp7"):
            estimate(1, precision="fp7", optimizer="adamw")
        assert known_optimizer("SGD", momentum=0.9) == "sgd-momentum"
        assert known_optimizer("Shampoo") is None
        assert all(known_optimizer(name) == name for name in OPTIMIZERS)
