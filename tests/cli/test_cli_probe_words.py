"""What `expdb probe` refuses before anything runs, and `probe data` on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("lr",), 2, "lr wants RUN|EXP"),
        (("lr", "exp01", "--from", "1", "--to", "0.1"), 2, "--from 1 is not below --to 0.1"),
        (("lr", "exp01", "--from", "0"), 2, "0.0 is not in the range"),
        (("lr", "exp01", "--from", "nan"), 2, "'nan' is not a number above 0"),
        (("lr", "exp01", "--updates", "5"), 2, "5 is not in the range"),
        (("throughput", "nothing"), 3, "no run, ref or experiment is called nothing"),
        (("throughput", "lr=1"), 2, "is an override, not RUN or EXP"),
        (("throughput", "exp01", "--updates", "0"), 2, "0 is not in the range"),
        (("throughput", "exp01", "lr"), 2, "lr is no override"),
        (("throughput", "exp01", "expdb.fork=exp01@10"), 2, "expdb.fork has no place in a probe"),
        (("throughput", "exp01", "expdb.store=x"), 2, "expdb.store has no place in a probe"),
        (("loader", "exp01@10"), 2, "name it without a step"),
        (("memory",), 2, "memory wants RUN|EXP, or --params N"),
        (("memory", "exp01", "--params", "7e9"), 2, "memory wants RUN|EXP, or --params N"),
        (("memory", "--params", "many"), 2, "'many' is no such number"),
        (("memory", "--params", "0"), 2, "'0' is no such number"),
        (("memory", "--params", "1e99"), 2, "'1e99' is no such number"),
        (("memory", "--params", "7e9", "--optim", "magic"), 2, "no optimizer is called magic"),
        (("memory", "--params", "7e9", "--cap", "-1"), 2, "'-1' is no such number"),
        (("data",), 2, "data wants RUN, or --train PATH and --val PATH"),
        (("data", "--train", "knobs.py"), 2, "go together"),
        (("data", "--train", "no", "--val", "knobs.py"), 2, "--train no is neither a file nor"),
        (("data", "--split", "knobs.py"), 2, "--split FILE wants --out DIR"),
        (("data", "--split", "knobs.py", "--out", "x"), 2, "knobs.py is no file of JSON lines"),
        (("data", "exp01", "--seed", "1"), 2, "go with --split"),
        (("data", "--split", "x", "--out", "y", "--share", "1"), 2, "1.0 is not in the range"),
        (("data", "exp01"), 4, "exp01 says nothing of its data"),
    ],
)
def test_nonsense_is_refused(here, words: tuple[str, ...], code: int, said: str) -> None:
    done = here("probe", *words)
    assert done.code == code, done.err
    assert done.out == ""
    assert said in done.err
    assert "Traceback" not in done.err
    assert "runs       python" not in done.err  # it never began


@pytest.mark.parametrize("number", ["7e9", "7B", "7G", "7000M", "7000000000", "0.007T", "7.0e9"])
def test_ways_to_write_a_number_of_parameters(here, number: str) -> None:
    done = here("probe", "memory", "--params", number, "--json")
    assert done.code == 0
    assert json.loads(done.out)["estimate"]["bytes"]["training_before_activations"] == 112 * 10**9


def test_whether_memory_is_enough_is_an_exit_code(here) -> None:
    assert here("probe", "memory", "--params", "7e9", "--cap", "80GB").code == 1
    done = here("probe", "memory", "--params", "7e9", "--cap", "141 GB")
    assert (done.code, done.out.splitlines()[-1]) == (0, "fits  112 GB of 141 GB, 79 %")
    bf16 = here("probe", "memory", "--params", "7e9", "--precision", "bf16", "--cap", "80GB")
    assert bf16.code == 0


def test_planted_text_is_found_and_a_clean_side_is_clean(here, tmp_path: Path) -> None:
    words = [" ".join(f"w{100 * i + k}" for k in range(20)) for i in range(200)]
    train, val = tmp_path / "train.txt", tmp_path / "val.txt"
    train.write_text("\n\n".join(words[:100]) + "\n")
    val.write_text("\n\n".join(words[100:]) + "\n")
    sides = ("--train", str(train), "--val", str(val))
    clean = here("probe", "data", *sides)
    assert (clean.code, clean.err) == (0, "")
    assert clean.out.endswith("clean  none of 100 validation documents is in training text\n")
    val.write_text("\n\n".join([*words[100:195], *words[:5]]) + "\n")
    done = here("probe", "data", *sides)
    assert done.code == 1
    assert "\n5 %  5 of 100 validation documents are in training text\n" in done.out
    overlap = json.loads(here("probe", "data", *sides, "--json").out)["overlap"]
    assert (overlap["share"], overlap["exact"], overlap["examples"][0]["train"]) == (
        0.05, 5, "train.txt:1",
    )  # fmt: skip


def test_a_split_keeps_its_strata_and_is_clean(here, tmp_path: Path) -> None:
    lines = [
        json.dumps({"text": f"item {i} of its own", "task": "ab"[i % 4 == 0]}) for i in range(80)
    ]
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n")
    words = ("--split", str(tmp_path / "all.jsonl"), "--out", str(tmp_path / "out"), "--by", "task")
    done = here("probe", "data", *words, "--share", "0.25", "--seed", "7")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].startswith(
        "split  all.jsonl: 60 train and 20 val items, seed 7"
    )
    assert json.loads((tmp_path / "out/split.json").read_text())["strata"] == [
        {"name": "a", "train": 45, "val": 15}, {"name": "b", "train": 15, "val": 5},
    ]  # fmt: skip
    again = here("probe", "data", *words)
    assert again.code == 4
    assert "exists already" in again.err
    sides = ("--train", str(tmp_path / "out/train.jsonl"), "--val", str(tmp_path / "out/val.jsonl"))
    assert here("probe", "data", *sides, "--words", "3").code == 1  # "of its own" is in all
    assert here("probe", "data", *sides).code == 0
