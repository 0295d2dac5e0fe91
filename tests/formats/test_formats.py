"""Every format that was ever written opens for ever: small stores as they were left.

They are copied first, since a reader may seal what a dead process left. How they were made, and
what is true of them: make.py.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.cli.main import main
from expdb.store.layout import RunLayout
from expdb.store.media import read_media
from expdb.store.points import read_series

HERE = Path(__file__).parent
BASELINE, BEST, CUT, GONE = "f96vsjvn9k", "e5nsbg8qjy", "bt4shjpjn3", "vhc7xgkcd1"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the store of format 1, two hours after its last process died."""
    target = tmp_path / "runs"
    shutil.copytree(HERE / "v1" / "runs", target)
    for name in ("trash", "ops", "refs", "packages"):
        assert (target / ".expdb" / name).is_dir()
    then = time.time() - 7200
    for path in target.rglob("*"):
        os.utime(path, (then, then))
    monkeypatch.chdir(tmp_path)
    return target


@pytest.fixture
def ask(store: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Type a command about the store; its JSON, or its text where it has none."""

    def typed(*words: str, code: int = 0) -> Any:
        capfd.readouterr()
        assert main(["--store", str(store), *words]) == code
        out = capfd.readouterr().out
        return json.loads(out) if "--json" in words else out

    return typed


def test_the_python_interface_reads_all_of_it(store: Path) -> None:
    opened = expdb.open(store)
    assert {run.id: (run.name, str(run.state)) for run in opened.runs().rows} == {
        BASELINE: ("exp00", "finished"), BEST: ("exp01", "finished"), CUT: ("exp02", "lost"),
    }  # fmt: skip
    run = opened.run("exp01")
    assert run.checkpoint("last").step == 20
    losses = opened.series("train/loss", runs=["exp01"])
    assert losses["step"].to_pylist() == list(range(40))
    assert losses["value"].to_pylist() == [3.0 - step / 64 for step in range(40)]
    values = opened.series("val/loss", runs=["exp00"])
    assert values["value"].to_pylist() == [
        2 / (1 + 0.5 * step / 10) for step in (0, 10, 20, 30, 40)
    ]
    assert [row.id for row in opened.rank("val/loss").rows] == [BEST, BASELINE]
    [(number, attempts)] = [
        tuple(row.values())
        for row in opened.sql("SELECT count(*), count(DISTINCT attempt) FROM points").to_pylist()
    ]
    assert (number, attempts) == (243, 2)


def test_superseded_points_and_the_journal_of_a_killed_run(store: Path) -> None:
    first = RunLayout(store / f"exp=exp01/run={BEST}")
    every = read_series(first.root, ["train/loss"], attempts=True)
    assert sorted(every["attempt"].to_pylist()) == [1] * 26 + [2] * 20
    odd = read_series(RunLayout(store / f"exp=exp02/run={CUT}").root, ["odd/nan", "odd/zero"])
    nan, zero = odd["value"].to_pylist()
    assert math.isnan(nan)
    assert math.copysign(1.0, zero) == -1.0
    journal = RunLayout(store / f"exp=exp02/run={CUT}").root
    for folder, attempts in ((first.root, True), (journal, False)):
        [text] = read_media(folder, "text", attempts=attempts).to_pylist()
        assert (text["key"], text["step"], text["text"]) == ("sample", 25, "Größe ≤ 1")
    assert read_media(first.root, "text").num_rows == 0  # the second attempt began at 20


def test_on_its_own_host_the_killed_run_has_crashed(
    store: Path, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "lab")
    found = ask("ls", "--json")
    assert {run["id"]: run["state"] for run in found["runs"]} == {
        BASELINE: "finished", BEST: "finished", CUT: "crashed",
    }  # fmt: skip
    last = ask("show", CUT, "--json")
    assert (last["step"], last["state"]) == (30, "crashed")


def test_every_reading_verb_has_the_right_values(ask: Callable[..., Any]) -> None:
    listed = ask("ls", "--json", "--sort", "val/loss")["runs"]
    assert [(run["id"], run["step"], run["objective"]["value"]) for run in listed] == [
        (CUT, 30, 2 / 7), (BEST, 40, 2 / 5), (BASELINE, 40, 2 / 3),
    ]  # fmt: skip
    shown = ask("show", "v1", "--json")
    assert (shown["id"], shown["labels"], shown["notes"]) == (BEST, ["keep"], ["größer is better"])
    assert [one["step"] for one in shown["checkpoints"]] == [20]
    assert [one["rule"] for one in shown["events"]] == ["made_up"]
    assert shown["attempts"] == 2
    compared = ask("compare", "baseline", "exp01", "--json")
    assert [row["key"] for row in compared["config"]] == ["optim.lr"]
    ranked = ask("rank", "val/loss", "--json")
    assert [row["id"] for row in ranked["runs"]] == [BEST, BASELINE]
    assert ask("log", "-q").split() == [CUT, BEST, BASELINE]
    assert ask("sql", "SELECT count(*) AS n FROM runs", "--csv").split() == ["n", "3"]
    rows = ask("export", "exp01", "--csv", "-").splitlines()
    assert len(rows) == 1 + 40 + 40 + 5 + 2
    kinds = [op["what"].split()[0] for op in ask("ops", "--json")["ops"]]
    assert kinds == ["rm", "note", "label", "tag", "baseline"]
    assert [one["name"] for one in ask("tag", "--json")["tags"]] == ["v1"]
    assert [one["id"] for one in ask("rm", "--list", "--json")["trash"]] == [GONE]
    assert ask("fsck", "--json")["findings"] == []


def test_what_was_removed_comes_back_and_weights_load(store: Path, ask: Callable[..., Any]) -> None:
    import torch

    ask("rm", "--restore", GONE)
    assert len(ask("ls", "--json")["runs"]) == 4
    for name in ("exp00", "exp01", "exp02", "exp03"):
        model = torch.nn.Linear(2, 2)
        expdb.open(store).run(name).checkpoint("last").load("model", into=model)
        torch.manual_seed(0)
        assert torch.equal(model.weight, torch.nn.Linear(2, 2).weight)


def test_the_files_are_in_git_and_name_no_machine() -> None:
    root = HERE.parents[1]
    files = sorted(path for path in (HERE / "v1").rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in files) <= 300_000
    places = re.compile(rb'"/(?!tmp/lab[/"])|/home/|/root|/Users/|/tmp/(?!lab)')
    for path in files:
        data = path.read_bytes()
        assert places.search(data) is None, path
        assert b'"host":' not in data.replace(b'"host":"lab"', b""), path
    listed = subprocess.run(
        ["git", "ls-files", "-z", "tests/formats/v1"], cwd=root, capture_output=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git work tree")
    tracked = {root / name for name in listed.stdout.decode().split("\0") if name}
    assert tracked == set(files)
