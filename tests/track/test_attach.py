"""A second process adds to a run in its own files, and the run stays what it is."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import expdb
from expdb.errors import BadInput, Corrupt, NotFound, Refused
from expdb.index.reader import open_reader
from expdb.model import Attempt, Pin, Run
from expdb.store import attempts, fold, writers
from expdb.store.artifacts import read_artifacts
from expdb.store.layout import RunLayout
from expdb.store.media import read_media
from expdb.store.points import read_series, standing
from expdb.store.recover import needs_recovery, recover
from expdb.store.runs import read_run
from expdb.store.writers import ATTACHED
from tests import warm

pytestmark = pytest.mark.slow

QUIET = {"expdb": {"print": "quiet"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def begin(root: Path, name: str = "exp01") -> Any:
    return expdb.start(QUIET, store=root, name=name, objective="val/loss", seed=0)


def finished(root: Path, steps: int = 3, name: str = "exp01") -> Any:
    with begin(root, name) as run:
        for step in range(steps):
            run.log({"train/loss": float(step)}, step=step)
    return run


def read(run: Any) -> Run:
    return read_run(run.dir, store_root=run.store.root)


def indexed(run: Any) -> Run:
    """What a reader of the index sees now."""
    return expdb.open(run.store.root).run(run.id).record


def counts(record: Run) -> dict[str, tuple[int, float]]:
    return {key: (item.count, item.last) for key, item in sorted(record.series.items())}


def points(run: Any, *, all: bool = False) -> list[tuple[str, int, float]]:
    table = read_series(run.dir, attempts=all)
    table = table if all else standing(table)
    return list(zip(*(table[name].to_pylist() for name in ("key", "step", "value")), strict=True))


def in_child(folder: Path, code: str, *args: str) -> subprocess.CompletedProcess[str]:
    script = folder / "child.py"
    script.write_text(code)
    env = {**os.environ}
    return warm.run([str(script), *args], cwd=folder, env=env, libraries=warm.LIGHT)


# -------------------------------------------------------------------------------- a finished run

ADDS = """
import sys, expdb
from pathlib import Path
with expdb.attach("exp01@2", store=sys.argv[1]) as run:
    run.log_eval("hellaswag", {"acc": 0.25, "acc_stderr": 0.01}, n=4, shots=0)
    run.log({"judge/score": 7.5})
    run.note("scored by a judge")
    run.alert("a weak answer", level="info")
    run.log_text("judge/why", "because")
    run.artifact(sys.argv[2])
    assert run.step == 2
"""


def test_another_process_adds_to_a_finished_run(root: Path, tmp_path: Path) -> None:
    run = finished(root)
    (tmp_path / "report.txt").write_text("good")
    before = run.layout.status_json.read_bytes(), run.layout.status_json.stat().st_mtime_ns
    assert indexed(run).notes == ()
    done = in_child(tmp_path, ADDS, str(root), str(tmp_path / "report.txt"))
    assert done.returncode == 0, done.stderr
    assert run.layout.status_json.read_bytes() == before[0]
    assert run.layout.status_json.stat().st_mtime_ns > before[1]
    for record in (read(run), indexed(run)):
        assert (record.state, record.last_step, len(record.attempts)) == ("finished", 2, 1)
        assert record.problems == ()
        assert record.notes == ("scored by a judge",)
        assert [(e.step, e.severity, e.rule) for e in record.events] == [(2, "info", "alert")]
        [found] = record.evals
        assert (found.task, found.step, found.metrics["acc"], found.n) == ("hellaswag", 2, 0.25, 4)
        assert counts(record) == {
            "eval/hellaswag/acc": (1, 0.25),
            "eval/hellaswag/acc_stderr": (1, 0.01),
            "judge/score": (1, 7.5),
            "train/loss": (3, 2.0),
        }
    [text] = read_media(run.dir, "text").to_pylist()
    assert (text["text"], text["step"], text["attempt"], text["rank"]) == (
        "because",
        2,
        1,
        ATTACHED,
    )
    assert [item.name for item in read_artifacts(run.layout, [])] == ["report.txt"]
    table = read_series(run.dir, ["judge/score"])
    assert (table["rank"][0].as_py(), table["attempt"][0].as_py()) == (ATTACHED, 1)
    assert list(run.dir.glob("attempts/1/*.wal")) == []
    assert not needs_recovery(run.layout)


def test_what_is_added_is_seen_while_the_process_still_runs(root: Path) -> None:
    run = finished(root)
    assert "late" not in indexed(run).series
    with expdb.attach("exp01", store=root) as other:
        for step in range(3):
            other.log({"late": float(step)}, step=step)
            assert counts(read(run))["late"] == counts(indexed(run))["late"] == (step + 1, step)
        other.log_eval("a", {"b": 1.0})
        assert [item.task for item in indexed(run).evals] == ["a"]
        other.log_text("t", "x")
        assert read_media(run.dir, "text").num_rows == 1
        assert not needs_recovery(run.layout)  # its journals belong to a living process
    assert counts(indexed(run))["late"] == (3, 2.0)


def make_old(run: Any, then: int) -> None:
    """As if the run had not changed for long: an index may hold it for good."""
    os.utime(run.layout.status_json, (then, then))


def rows_of(run: Any) -> dict[str, tuple[int, float]]:
    """The summaries as the tables of the index have them."""
    with open_reader(run.store) as reader:
        query = "SELECT key, count, last FROM series WHERE run = ?"
        return {key: (count, last) for key, count, last in reader.rows(query, [run.id])}


def test_an_index_holds_a_run_for_good_only_when_nobody_adds_to_it(root: Path) -> None:
    run = finished(root)
    make_old(run, 1_700_000_000)
    assert rows_of(run) == {"train/loss": (3, 2.0)}
    other = expdb.attach("exp01", store=root)
    make_old(run, 1_700_000_100)
    for step in range(3):
        other.log({"late": float(step)}, step=step)
        assert rows_of(run)["late"] == (step + 1, step)
    other.finish()
    make_old(run, 1_700_000_200)
    for _ in range(2):
        assert rows_of(run) == {"late": (3, 2.0), "train/loss": (3, 2.0)}


def test_each_addition_sets_a_new_time_on_the_status(root: Path, tmp_path: Path) -> None:
    run = finished(root)
    (tmp_path / "x").write_text("x")
    times = [run.layout.status_json.stat().st_mtime_ns]

    def has_new_time() -> bool:
        times.append(run.layout.status_json.stat().st_mtime_ns)
        return times[-1] > times[-2]

    other = expdb.attach("exp01", store=root)
    assert has_new_time()
    for call in (
        lambda: other.note("x"),
        lambda: other.alert("x"),
        lambda: other.log_eval("a", {"b": 1.0}),
        lambda: other.artifact(tmp_path / "x"),
        lambda: other.finish(),
    ):
        call()
        assert has_new_time()


def test_the_same_step_stands_once_and_is_counted_once(root: Path) -> None:
    run = finished(root)
    for value in (10.0, 20.0):
        with expdb.attach(run.id, store=root) as other:
            other.log({"train/loss": value}, step=1)
            other.log({"train/loss": value + 1}, step=5)
    assert points(run) == [
        ("train/loss", 0, 0.0), ("train/loss", 1, 20.0), ("train/loss", 2, 2.0),
        ("train/loss", 5, 21.0),
    ]  # fmt: skip
    assert len(points(run, all=True)) == 7
    series = read(run).series["train/loss"]
    assert (series.count, series.max, series.max_step, series.last) == (4, 21.0, 5, 21.0)
    ranks = set(read_series(run.dir)["rank"].to_pylist())
    assert ranks == {0, ATTACHED, ATTACHED + 1}


def test_a_value_given_twice_is_the_later_one(root: Path) -> None:
    run = finished(root)
    with expdb.attach("exp01", store=root) as other:
        for value in (1.0, 2.0, 3.0):
            other.log({"x": value}, step=5)
    assert points(run)[-1] == ("x", 5, 3.0)
    assert read(run).series["x"].count == 1


# ------------------------------------------------------------------------------------ a live run


def test_a_live_run_and_an_attached_process_write_side_by_side(root: Path) -> None:
    with begin(root) as run:
        run.log({"train/loss": 1.0}, step=1)
        status = run.layout.status_json.read_bytes()
        with expdb.attach(run.id, store=root) as other:
            assert other.step == 1
            other.log({"judge": 5.0, "train/loss": 9.0}, step=1)
            run.log({"train/loss": 2.0}, step=2)
            assert counts(read(run))["judge"] == (1, 5.0)
        assert run.layout.status_json.read_bytes() == status
        assert read(run).state == "running"
        run.log({"train/loss": 3.0}, step=3)
        # Not folded yet: the step that both have counts twice until the run is over.
        assert counts(read(run)) == {"judge": (1, 5.0), "train/loss": (4, 3.0)}
    assert counts(read(run)) == {"judge": (1, 5.0), "train/loss": (3, 3.0)}
    assert points(run)[1:] == [
        ("train/loss", 1, 9.0), ("train/loss", 2, 2.0), ("train/loss", 3, 3.0),
    ]  # fmt: skip
    assert read(run).problems == ()


def test_a_process_that_ends_after_the_run_is_counted_too(root: Path) -> None:
    with begin(root) as run:
        run.log({"train/loss": 1.0}, step=1)
        other = expdb.attach(run.id, store=root)
        other.log({"train/loss": 9.0, "judge": 1.0}, step=1)
    assert read(run).state == "finished"
    assert counts(read(run))["judge"] == (1, 1.0)
    other.log({"judge": 2.0}, step=2)
    other.finish()
    other.finish()
    assert counts(read(run)) == {"judge": (2, 2.0), "train/loss": (1, 9.0)}


def test_a_resumed_run_hides_what_was_added_after_its_step(root: Path) -> None:
    run = begin(root)
    run.log({"train/loss": 1.0}, step=1)
    with expdb.attach(run.id, store=root) as other:
        other.log({"judge": 1.0}, step=1)
        other.log({"judge": 2.0}, step=2)
    run.preempt("SIGTERM")
    layout = run.layout
    layout.attempt(2).mkdir()
    attempts.write_pin(layout, Attempt(number=2, pin=Pin(), resumed_from=1))
    assert points(run) == [("judge", 1, 1.0), ("train/loss", 1, 1.0)]


# ------------------------------------------------------------------------------------ a dead one

DIES = """
import os, signal, sys, expdb
run = expdb.attach("exp01@7", store=sys.argv[1])
for step in range(20):
    run.log({"judge": float(step)}, step=step)
    run.log_text("why", str(step), step=step)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_added_is_kept_and_sealed(root: Path) -> None:
    run = finished(root)
    assert in_child(root.parent, DIES, str(root)).returncode == -signal.SIGKILL
    assert counts(read(run))["judge"] == (20, 19.0)
    assert needs_recovery(run.layout)
    assert read_media(run.dir, "text").num_rows == 20
    assert counts(indexed(run)) == {"judge": (20, 19.0), "train/loss": (3, 2.0)}
    assert not needs_recovery(run.layout)
    assert list(run.dir.glob("attempts/1/*.wal")) == []
    assert counts(read(run)) == {"judge": (20, 19.0), "train/loss": (3, 2.0)}
    assert read_media(run.dir, "text").num_rows == 20
    assert (read(run).state, read(run).problems) == ("finished", ())


def test_a_recovery_leaves_a_living_writer_alone(root: Path) -> None:
    run = begin(root)
    run.log({"train/loss": 1.0}, step=1)
    other = expdb.attach(run.id, store=root)
    other.log({"judge": 1.0}, step=1)
    other.log_text("t", "1")
    assert recover(root, run.layout, assume_dead=True) == "crashed"
    assert len(list(run.dir.glob("attempts/1/*-1000000.1.wal"))) == 2
    other.log({"judge": 2.0}, step=2)
    other.log_text("t", "2")
    assert counts(read(run)) == {"judge": (2, 2.0), "train/loss": (1, 1.0)}
    other.finish()
    assert counts(read(run)) == {"judge": (2, 2.0), "train/loss": (1, 1.0)}
    assert read_media(run.dir, "text")["text"].to_pylist() == ["1", "2"]
    run._open = False  # what it was is recovered
    run._heartbeat.stop()


def test_a_writer_on_another_host_is_open_while_its_file_is_touched(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(root)
    other = expdb.attach("exp01", store=root)
    monkeypatch.setattr(writers.owner, "fate", lambda found: "unknown")
    path = run.layout.rank_owner(1, ATTACHED)
    assert writers.is_open(run.layout, 1, ATTACHED)
    old = path.stat().st_mtime - 700
    os.utime(path, (old, old))
    assert not writers.is_open(run.layout, 1, ATTACHED)
    other.finish()


# ----------------------------------------------------------------------------- words, and whose


def test_the_word_is_one_of_the_run_grammar(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = finished(root, 4), finished(root, 6)
    for word, run, step in (
        ("exp01", second, 5), ("exp01@300", second, 300), (first.id, first, 3),
        (f"{first.id}@2", first, 2), ("exp01:prev", first, 3),
    ):  # fmt: skip
        with expdb.attach(word, store=root) as other:
            assert (other.id, other.step) == (run.id, step)
    monkeypatch.chdir(root.parent)
    with expdb.attach("exp01") as other:
        assert other.id == second.id
    monkeypatch.chdir("/")
    with pytest.raises(NotFound):
        expdb.attach("exp01")
    monkeypatch.setenv("EXPDB_STORE", str(root))
    expdb.attach("exp01").finish()
    with pytest.raises(NotFound):
        expdb.attach("exp02", store=root)
    with pytest.raises(NotFound):
        expdb.attach("exp01@last", store=root)  # there is no checkpoint
    with pytest.raises(BadInput):
        expdb.attach("exp01:all", store=root)


def test_a_run_without_an_attempt_is_refused(root: Path) -> None:
    run = finished(root)
    (run.dir / "attempts").rename(run.dir / "gone")
    with pytest.raises(Refused, match="no attempt"):
        expdb.attach(run.id, store=root)


def test_values_are_refused_as_by_the_run_itself(root: Path) -> None:
    run = finished(root)
    with expdb.attach("exp01@4", store=root) as other:
        with pytest.raises(BadInput, match="bad at step 4 is None"):
            other.log({"good": np.float32(1), "bad": None})
        with pytest.raises(BadInput, match="step"):
            other.log({"x": 1.0}, step=2.5)
    assert points(run)[0] == ("good", 4, 1.0)
    for call in (
        lambda: other.log({"x": 1.0}),
        lambda: other.note("x"),
        lambda: other.log_text("a", "b"),
        lambda: other.log_eval("a", {"b": 1}),
    ):
        with pytest.raises(BadInput, match="no longer attached"):
            call()
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.deepcopy(other)


def test_a_fork_neither_writes_nor_ends_it(root: Path) -> None:
    run = finished(root)
    other = expdb.attach("exp01", store=root)
    other.log({"x": 1.0}, step=1)
    child = os.fork()
    if child == 0:
        try:
            other.finish()
            other.log({"x": 9.0}, step=2)
        except BadInput:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    other.log({"x": 2.0}, step=2)
    other.finish()
    assert [row for row in points(run) if row[0] == "x"] == [("x", 1, 1.0), ("x", 2, 2.0)]


FORGETS = """
import sys, expdb
run = expdb.attach("exp01", store=sys.argv[1])
run.log({"judge": 1.0}, step=1)
"""


def test_a_script_that_forgets_to_finish_loses_nothing(root: Path) -> None:
    run = finished(root)
    done = in_child(root.parent, FORGETS, str(root))
    assert (done.returncode, done.stderr) == (0, "")
    assert list(run.dir.glob("attempts/1/*.wal")) == []
    assert counts(read(run))["judge"] == (1, 1.0)


def test_what_cannot_be_written_at_the_end_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(root)
    other = expdb.attach("exp01", store=root)
    with monkeypatch.context() as patch:
        patch.setattr(RunLayout, "rank_owner", lambda *args: run.dir / "no-folder" / "x")
        with pytest.raises(Corrupt, match="rank 1000000"):
            other.finish()
    other.finish()
    assert json.loads(run.layout.rank_owner(1, ATTACHED).read_text())["closed"] is True


def test_a_lock_that_is_held_makes_the_count_wait(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fold, "WAIT_S", 0.1)
    run = finished(root)
    other = expdb.attach("exp01", store=root)
    other.log({"judge": 1.0}, step=1)
    with fold.run_lock(root, run.layout):
        other.finish()
    assert "are not counted yet" in capsys.readouterr().err
    # The summary still has them, added by the reader.
    assert counts(read(run))["judge"] == (1, 1.0)
    assert fold.fold(root, run.layout)
    assert not fold.fold(root, run.layout)
    assert counts(read(run))["judge"] == (1, 1.0)
