"""The processes of the benchmarks: expdb's adapter, the made store, what is left behind."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import check, data, environments, many_store, measure
from bench.environments import Failed, Place
from bench.pairs import Options
from bench.workloads import kill

METRICS = data.metric_names(2)
FIRST = "prd8gcs9fj"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place in which expdb and the references run in this environment."""
    monkeypatch.setattr(environments, "FOLDER", tmp_path / "none")
    with Place() as made:
        yield made


def command(*words: str, cwd: Path) -> measure.Command:
    return measure.Command(words=[sys.executable, *words], cwd=cwd, env=dict(os.environ))


@pytest.mark.slow
def test_expdb_answers_exactly_through_its_adapter(place: Place) -> None:
    runs, steps = data.run_names(3), 5
    job: dict[str, Any] = {"store": place.store("a"), "steps": steps, "metrics": len(METRICS)}
    place.ask("expdb", "fill", {**job, "runs": runs})
    best = {**job, "metric": METRICS[0], "num": 2}
    for reading in ("last", "min"):
        answer, _ = place.ask("expdb", "top", {**best, "reading": reading})
        found = check.top(answer["answer"], runs, METRICS[0], steps, reading=reading, num=2)
        assert found.exact, found.why
    answer, _ = place.ask("expdb", "compare", {**job, "first": runs[0], "second": runs[2]})
    found = check.compare(answer["answer"], runs[0], runs[2], METRICS, steps)
    assert found.exact, found.why
    answer, spent = place.ask("expdb", "series", {**job, "metric": METRICS[1], "runs": runs})
    found = check.series(answer["answer"], runs, METRICS[1], steps)
    assert found.exact, found.why
    assert (spent.rc, spent.left) == (0, 0)
    assert spent.cpu_s > 0.01


def test_a_process_that_fails_is_named_with_what_it_said(place: Place) -> None:
    with pytest.raises(Failed, match=r"jsonl-flush series: exit 1: .*No such file"):
        place.ask("jsonl-flush", "series", {"store": "/nowhere", "metric": "m", "runs": ["r"]})
    with pytest.raises(Failed, match="aim is not installed"):
        place.ask("aim", "prepare", {"store": "x"})


def test_a_place_leaves_nothing_behind(place: Place) -> None:
    with Place() as other:
        assert other.env()["HOME"].startswith(str(other.root))
    assert not other.root.exists()
    assert place.root.exists()


@pytest.mark.slow
def test_the_made_store_holds_what_it_says(place: Place) -> None:
    store = many_store.make(place, 45)
    shown = json.loads(place.expdb("ls", "--json", EXPDB_STORE=str(store)).out)["runs"]
    assert len(shown) == 45
    assert {run["state"] for run in shown} == {"finished"}
    assert len({run["id"] for run in shown}) == 45
    assert len({run["experiment"] for run in shown}) == many_store.EXPERIMENTS
    values = [run["objective"]["value"] for run in shown]
    assert all(1.8 <= value <= 2.1 for value in values)
    many_store.add(place, store, 45)
    assert len(list(store.glob("exp=*/run=*/status.json"))) == 46
    assert (store / "exp=exp00" / f"run={FIRST}").is_dir()  # the same in every process


def test_what_a_process_leaves_running_is_waited_for_and_counted(tmp_path: Path) -> None:
    spin = "import time\nwhile time.process_time() < 0.2: pass\n"
    (tmp_path / "spin.py").write_text(spin)
    start = "import subprocess, sys; subprocess.Popen([sys.executable, 'spin.py'])"
    spent = measure.run(command("-c", start, cwd=tmp_path))
    assert spent.rc == 0
    assert spent.cpu_s > 0.2
    assert spent.left == 0


def test_what_does_not_end_is_killed_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "LEFT_S", 0.1)
    start = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid)"
    spent = measure.run(command("-c", start, cwd=tmp_path))
    assert spent.left == 1
    assert not Path(f"/proc/{spent.out.strip()}").exists()


def test_processes_side_by_side_are_told_apart(tmp_path: Path) -> None:
    fast = measure.Running(command("-c", "raise SystemExit(3)", cwd=tmp_path))
    slow = measure.Running(
        command("-c", "import time; time.sleep(0.5); print('slow')", cwd=tmp_path)
    )
    assert fast.wait().rc == 3
    assert slow.is_running()
    found = slow.wait()
    assert (found.rc, found.out) == (0, "slow\n")


@pytest.mark.slow
@pytest.mark.parametrize("every_s", [pytest.param(0.0, marks=pytest.mark.soak), kill.PACED_S])
def test_a_killed_run_is_counted_and_the_next_one_is_whole(place: Place, every_s: float) -> None:
    found = kill.killed(place, "expdb", every_s, Options(scale="quick"))
    assert found["lost_pct"] == 0
    assert 0 <= found["recovered"] - found["logged"] <= kill.METRICS
    assert found["state"] == "crashed"
    assert found["next"]
