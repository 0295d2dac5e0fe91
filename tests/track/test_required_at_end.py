"""A run that finishes says what it lacks of what it requires."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.errors import BadInput
from expdb.store.files import read_json
from expdb.store.layout import RunLayout

REQUIRE = ["val/loss", "eval/cloze/acc", "train/x"]
SAID = "which it requires: it does not count"


def start(top: Path, **settings: Any) -> Any:
    config = {"lr": 0.1, "expdb": {"print": "quiet", **settings}}
    return expdb.start(config, store=top / "runs", resume="never")


def test_what_is_lacking_is_said_once_it_has_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start(tmp_path, require=REQUIRE)
    run.log({"val/loss": 1.0, "train/x": math.nan}, step=1)
    run.finish()
    assert f"warning: it lacks eval/cloze/acc and 1 more, {SAID}" in capsys.readouterr().err
    kept = read_json(RunLayout(Path(run.dir)).run_json)["settings"]
    assert (kept["require"], kept["gates"]) == (REQUIRE, {})

    run = start(tmp_path, require=REQUIRE, gates={"val/loss": {"max": 2}})
    run.log({"val/loss": 1.0, "train/x": 2.0}, step=1)
    run.log_eval("cloze", {"acc": 0.5}, n=10, step=1)
    run.finish()
    assert SAID not in capsys.readouterr().err
    kept = read_json(RunLayout(Path(run.dir)).run_json)["settings"]
    assert kept["gates"] == {"val/loss": {"max": 2}}


def test_a_failed_run_is_not_blamed_for_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start(tmp_path, require=REQUIRE)
    run.fail("no more memory")
    assert SAID not in capsys.readouterr().err


def test_a_gate_that_makes_no_sense_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"expdb\.gates\.val/loss\.max is 'low'"):
        start(tmp_path, gates={"val/loss": {"max": "low"}})
    assert not list((tmp_path / "runs").rglob("run.json"))
