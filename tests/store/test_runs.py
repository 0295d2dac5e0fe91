from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expdb.errors import Corrupt, NotFound, Unsupported
from expdb.model import Attempt, Objective, Pin, Run, RunAt, RunState
from expdb.store import attempts, fields, folders, owner, recorder, runs, status
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout
from expdb.store.recorder import Recorder
from expdb.store.runs import find_run_dir, read_run, run_dirs
from expdb.store.status import Status, write_status
from expdb.store.store import open_store

MakeRun = Callable[..., RunLayout]
Read = Callable[[RunLayout], Run]


@pytest.fixture
def read(store_root: Path) -> Read:
    return lambda layout: read_run(layout.root, store_root=store_root)


@pytest.fixture
def whole(make_run_dir: MakeRun, dead: dict[str, Any]) -> RunLayout:
    """A finished run with one of everything."""
    layout = make_run_dir(
        "running",
        variant="+lr=1", seed=3, created_at_ms=17, digest="v1:ab", canonical='{"a":1}',
        parent={"run": "t1h6y3cz8r", "step": 300}, fork={"run": "t1h6y3cz8r", "step": None},
        objective={"metric": "a", "mode": "max", "reading": "best"}, command=["python", "t.py"],
        settings={"keep": {"last": 2}},
    )  # fmt: skip
    attempts.write_pin(layout, Attempt(number=1, pin=Pin(commit="c" * 40, tree="t" * 40)))
    item = Recorder(layout, run=layout.id, attempt=1)
    for step in range(5):
        item.write(("a", "b"), (float(step), math.nan), step, step)
    item.close()
    layout.marks.write_text(
        '{"kind":"label","text":"keep"}\n{"kind":"label","text":"x"}\n{"kind":"note","text":"é"}\n'
        '{"kind":"unlabel","text":"x"}\n{"kind":"new","text":"later"}\n'
    )
    layout.events.write_text('{"step":3,"severity":"warn","rule":"spike","message":"m"}\n')
    layout.evals.mkdir()
    body = {"id": "e1", "task": "arc", "step": 4, "metrics": {"acc": 0.5, "x": "NaN"}, "n": 7}
    write_json(layout.evals / "e1.json", body)
    folder = layout.checkpoint(4)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"1234")
    manifest = {
        "format": 1, "attempt": 1, "parts": {}, "files": {"model.pt": {"bytes": 4, "sha256": "0"}},
    }  # fmt: skip
    write_json(folder / "manifest.json", manifest)
    write_status(layout, Status(state="finished", last_step=4, max_steps=5, ended_at_ms=99))
    return layout


def test_a_run_is_read_whole(whole: RunLayout, read: Read, store_root: Path) -> None:
    run = read(whole)
    assert (run.id, run.name, run.seed) == (whole.id, "baseline+lr=1", 3)
    assert (run.state, run.reason, run.last_step, run.max_steps) == ("finished", "", 4, 5)
    assert (run.created_at_ms, run.ended_at_ms, run.digest) == (17, 99, "v1:ab")
    assert run.parent == RunAt(run="t1h6y3cz8r", step=300)
    assert run.fork == RunAt(run="t1h6y3cz8r")
    assert run.objective == Objective(metric="a", mode="max", reading="best")
    assert run.value() == (4.0, 4)
    assert run.command == ("python", "t.py")
    assert run.settings == {"keep": {"last": 2}}
    assert run.pin.tree == "t" * 40
    assert run.series["b"].nonfinite == 5
    assert (run.labels, run.notes) == (("keep",), ("é",))
    assert [(item.rule, item.step) for item in run.events] == [("spike", 3)]
    assert run.evals[0].metrics["acc"] == 0.5
    assert math.isnan(run.evals[0].metrics["x"])
    assert [(item.step, item.complete) for item in run.checkpoints] == [(4, True)]
    assert run.problems == ()
    assert run.bytes == sum(
        path.stat().st_size
        for path in whole.root.rglob("*")
        if path.is_file() and path != whole.status_json
    )
    assert run.path == whole.root.relative_to(store_root).as_posix()
    assert run.version == runs.version_of(whole.root) != (0, 0, 0)


GARBAGE = [b"", b"\0" * 40, b"{", b"[]", b"null", b"\xff\xfe", b'"x"', b"[" * 50_000]


@pytest.mark.parametrize("data", GARBAGE)
@pytest.mark.parametrize(
    "name",
    [
        "status.json",
        "series.json",
        "attempts/1/pin.json",
        "evals/e1.json",
        "marks.jsonl",
        "events.jsonl",
    ],
)
def test_a_damaged_file_is_a_problem_that_names_it(
    whole: RunLayout, read: Read, name: str, data: bytes
) -> None:
    end = b"\n" if name.endswith("l") else b""
    (whole.root / name).write_bytes(data + end)
    run = read(whole)
    if data + end == b"\n":
        assert run.problems == ()
        return
    assert len(run.problems) == 1
    assert name.rpartition("/")[2] in run.problems[0]
    assert run.experiment == "baseline"
    if name != "status.json":
        assert run.state is RunState.FINISHED


@pytest.mark.parametrize(
    "name",
    [
        "status.json", "series.json", "attempts/1/pin.json", "evals/e1.json", "marks.jsonl",
        "events.jsonl",
    ],
)  # fmt: skip
def test_a_folder_where_a_file_should_be_is_a_problem(
    whole: RunLayout, read: Read, name: str
) -> None:
    (whole.root / name).unlink()
    (whole.root / name).mkdir()
    assert len(read(whole).problems) == 1


@pytest.mark.parametrize("name", ["evals", "attempts", "checkpoints"])
def test_a_file_where_a_folder_should_be_is_survived(
    whole: RunLayout, read: Read, name: str
) -> None:
    shutil.rmtree(whole.root / name)
    (whole.root / name).write_text("x")
    run = read(whole)
    assert run.state is RunState.FINISHED
    if name != "attempts":
        assert run.problems == (f"{name} cannot be read: a part of the path is a file",)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)
EDITED = (
    "run.json", "status.json", "series.json", "attempts/1/pin.json", "attempts/1/rank-0.json",
    "attempts/1/owner.json", "evals/e1.json", "checkpoints/step=4/manifest.json",
)  # fmt: skip


def places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value inside a JSON value."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [at, *(found for key, item in items for found in places(item, (*at, key)))][
        bool(not at) :
    ]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(EDITED), JSON, st.data())
def test_a_value_of_any_other_type_is_named_and_never_another_error(
    whole: RunLayout, read: Read, name: str, value: Any, data: st.DataObject
) -> None:
    path = whole.root / name
    was = path.read_bytes()
    content = json.loads(was)
    at = data.draw(st.sampled_from(places(content)))
    inner = content
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    path.write_text(json.dumps(content))
    try:
        run = read(whole)
    except (Corrupt, Unsupported):
        assert name == "run.json"
        return
    finally:
        path.write_bytes(was)
    for number in (run.created_at_ms, run.last_step, run.max_steps, run.ended_at_ms):
        assert number is None or (type(number) is int and abs(number) <= 2**63)
    assert all(type(item) is str for item in (*run.command, *run.labels, run.digest, run.reason))
    for item in run.series.values():
        assert type(item.count) is int
        assert type(item.last) is float
    for attempt in run.attempts:
        assert all(type(item) is str for item in (*attempt.pin.used.values(), *attempt.pin.reasons))
    for checkpoint in run.checkpoints:
        assert type(checkpoint.bytes) is int


def test_a_mistake_of_ours_is_not_taken_for_a_damaged_file(
    whole: RunLayout, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*args: object) -> None:
        raise AttributeError("a typo")

    for module, name in (
        (fields, "mapping"), (fields, "mappings"), (fields, "choice"), (fields, "maybe_real")
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(module, name, wrong)
            with pytest.raises(AttributeError):
                read(whole)


@pytest.mark.parametrize("data", GARBAGE)
def test_a_damaged_run_json_is_an_error_that_names_it(
    whole: RunLayout, read: Read, data: bytes
) -> None:
    whole.run_json.write_bytes(data)
    with pytest.raises(Corrupt, match=r"run\.json"):
        read(whole)


@pytest.mark.parametrize(
    "change",
    [
        {"variant": 5}, {"seed": 1.5}, {"seed": True}, {"digest": None}, {"command": [1]},
        {"canonical": {}}, {"created_at_ms": 2**70}, {"parent": {"run": 5}},
        {"objective": {"metric": "a", "mode": []}},
        {"id": "t1h6y3cz8r"}, {"id": None}, {"experiment": ""}, {"experiment": 5}, {"seed": "x"},
        {"created_at_ms": None}, {"parent": 5}, {"parent": {}},
        {"parent": {"run": "a", "step": []}},
        {"objective": {"mode": "min"}}, {"objective": {"metric": "a", "mode": "up"}},
        {"objective": []}, {"settings": 5}, {"command": None}, {"format": "1", "id": 5},
    ],
)  # fmt: skip
def test_a_run_json_of_other_types_is_an_error_that_names_it(
    whole: RunLayout, read: Read, change: dict[str, Any]
) -> None:
    write_json(whole.run_json, {**read_json(whole.run_json), **change})
    with pytest.raises(Corrupt, match=r"run\.json"):
        read(whole)


def test_a_newer_run_and_a_folder_that_is_no_run(whole: RunLayout, read: Read) -> None:
    write_json(whole.run_json, {"format": 2, "needs": "9.9"})
    with pytest.raises(Unsupported, match="format 2") as caught:
        read(whole)
    assert "9.9" in caught.value.hints[0]
    whole.run_json.unlink()
    with pytest.raises(NotFound):
        read(whole)


@pytest.mark.parametrize(
    "line",
    [
        '{"step":[]}',
        '{"step":"x"}',
        '{"created_at_ms":null}',
        "5",
        "{",
        "\\ufffd",
        '{"severity":5}',
        '{"severity":"loud"}',
        '{"step":true}',
        '{"step":1e400}',
        '{"step":99999999999999999999}',
        '{"message":null}',
    ],
)
def test_a_damaged_line_is_named_and_the_others_are_read(
    whole: RunLayout, read: Read, line: str
) -> None:
    good = whole.events.read_text()
    whole.events.write_text(good + line + "\n" + good)
    run = read(whole)
    assert run.problems == ("events.jsonl: line 2 is damaged",)
    assert len(run.events) == 2


def test_a_line_torn_by_the_death_of_its_writer_is_no_damage(whole: RunLayout, read: Read) -> None:
    with whole.events.open("a") as file:
        file.write('{"step":4,"seve')
    assert (len(read(whole).events), read(whole).problems) == (1, ())


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": []},
        {"metrics": {"a": "x"}},
        {"metrics": {"a": "1.5"}},
        {"step": None},
        {"metrics": {"a": 10**400}},
        {"n": "x"},
        {"n": 1.5},
        {"task": 5},
        {"id": None},
    ],
)
def test_a_damaged_eval_is_named(whole: RunLayout, read: Read, change: dict[str, Any]) -> None:
    path = whole.evals / "e1.json"
    write_json(path, {**read_json(path), **change})
    assert read(whole).problems == ("evals/e1.json is damaged",)


# ------------------------------------------------------------------------------------ who lives


def test_a_live_run_is_read_from_its_journal(make_run_dir: MakeRun, read: Read) -> None:
    layout = make_run_dir(max_steps=9)
    assert read(layout).last_step is None
    item = Recorder(layout, run=layout.id, attempt=1)
    for step in range(7):
        item.write(("a",), (float(step),), step, 0)
        if step == 3:
            item.save_book()
    run = read(layout)
    assert (run.state, run.last_step, run.ended_at_ms) == (RunState.RUNNING, 6, None)
    assert (run.series["a"].count, run.series["a"].last) == (7, 6.0)
    item.close()
    assert read(layout).series["a"].count == 7  # between the last part and the last status


def test_the_summary_of_a_live_run_misses_nothing_while_it_seals(
    make_run_dir: MakeRun, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 200)
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    layout, written = make_run_dir(), 0
    item = Recorder(layout, run=layout.id, attempt=1)

    def write() -> None:
        nonlocal written
        for step in range(3000):
            item.write(("a",), (float(step),), step, 0)
            written = step + 1
            if step % 20 == 0:
                time.sleep(0.001)

    thread = threading.Thread(target=write)
    thread.start()
    looks = 0
    while thread.is_alive():
        before, run = written, read(layout)
        count = run.series["a"].count if "a" in run.series else 0
        assert count >= before
        assert count == 0 or run.series["a"].last_step == count - 1
        assert run.problems == ()
        looks += 1
    thread.join()
    item.close()
    assert looks > 2
    assert read(layout).series["a"].count == 3000


def test_states_of_runs_whose_process_is_gone_or_elsewhere(
    make_run_dir: MakeRun, read: Read, dead: dict[str, Any]
) -> None:
    assert read(make_run_dir("running", who=dead)).state is RunState.CRASHED
    assert read(make_run_dir("running", who=dead)).reason == runs.SILENT
    for state in ("finished", "failed", "preempted", "crashed"):
        assert read(make_run_dir(state, who=dead)).state == state
        assert read(make_run_dir(state)).state == state
    assert read(make_run_dir(None, who=dead)).state is RunState.CRASHED
    assert read(make_run_dir(None)).state is RunState.RUNNING
    away = make_run_dir("running", who={**dead, "host": "elsewhere"})
    assert read(away).state is RunState.RUNNING
    then = time.time() - 700
    os.utime(away.attempt(1), (then, then))
    run = read(away)
    assert (run.state, run.reason) == (RunState.LOST, "another host, no sign for 10 minutes")


def test_a_run_is_crashed_as_soon_as_its_process_is_killed(
    make_run_dir: MakeRun, read: Read
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        start = owner.process_start(child.pid)
        layout = make_run_dir(who={**owner.describe(), "pid": child.pid, "start": start})
        assert read(layout).state is RunState.RUNNING
        child.kill()
        child.wait()
    assert read(layout).state is RunState.CRASHED


def test_a_live_run_is_never_crashed_because_a_file_of_it_is_damaged(
    make_run_dir: MakeRun, read: Read, dead: dict[str, Any]
) -> None:
    layout = make_run_dir("running", who=dead)
    number = attempts.claim(layout)
    for path in (layout.attempt(number) / "pin.json", layout.status_json, layout.series_json):
        path.write_bytes(b"{")
        assert read(layout).state is RunState.RUNNING
    run = read(layout)
    assert [item.number for item in run.attempts] == [1, 2]
    assert run.pin.reasons == ("its pin.json is damaged",)
    assert len(run.problems) == 3


def test_a_run_that_goes_on_is_running_before_its_status_says_so(
    make_run_dir: MakeRun, read: Read, dead: dict[str, Any]
) -> None:
    for state in ("crashed", "preempted"):
        layout = make_run_dir(state, who=dead)
        assert read(layout).state == state
        attempts.claim(layout)
        assert read(layout).state is RunState.RUNNING


def test_a_run_that_ends_between_two_looks_did_not_crash(
    make_run_dir: MakeRun, read: Read, dead: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_run_dir("running", who=dead)
    real = attempts.life

    def life(at: RunLayout, number: int, *, store_meta: Path) -> str:
        write_status(layout, Status(state="finished", last_step=5))
        return real(at, number, store_meta=store_meta)

    monkeypatch.setattr(attempts, "life", life)
    run = read(layout)
    assert (run.state, run.last_step) == (RunState.FINISHED, 5)


def test_counts_of_an_earlier_attempt_are_not_taken_for_this_one(
    make_run_dir: MakeRun, read: Read
) -> None:
    layout = make_run_dir()
    item = Recorder(layout, run=layout.id, attempt=1)
    for step in range(9):
        item.write(("a",), (1.0,), step, 0)
    item.close()
    number = attempts.claim(layout)
    item = Recorder(layout, run=layout.id, attempt=number)
    item.write(("a",), (1.0,), 9, 0)
    assert read(layout).series["a"].count == 10


# ------------------------------------------------------------------------------------- the store


def test_folders_that_are_no_runs_are_passed_over(store_root: Path, make_run_dir: MakeRun) -> None:
    layout, other = make_run_dir(), make_run_dir(None)
    for name in ("exp=baseline/run=x", "exp=baseline/k3f9x2m7qd", "x/run=k3f9x2m7qd"):
        (store_root / name).mkdir(parents=True)
    (store_root / "exp=file").write_text("")
    found = {run: (path, version) for run, path, version in run_dirs(store_root)}
    assert set(found) == {layout.id, other.id}
    assert found[other.id] == (other.root, (0, 0, 0))
    stat = layout.status_json.stat()
    assert found[layout.id][1] == (stat.st_mtime_ns, stat.st_ino, stat.st_size)
    assert list(run_dirs(store_root / "none")) == []
    for run, folder, stamp in folders.scan_stamps(store_root):
        assert found[run] == (Path(folder), folders.version_in(stamp))
        assert stamp.startswith(f"{run}:")
        assert type(folder) is str


def test_a_run_is_found_by_its_full_id(store_root: Path, make_run_dir: MakeRun) -> None:
    layout = make_run_dir()
    assert find_run_dir(store_root, layout.id) == layout.root
    for name in ("k3f9x2m7qd", "..", "", "*", layout.id[:4]):
        with pytest.raises(NotFound, match="has no run"):
            find_run_dir(store_root, name)


def as_user(work: Callable[[], None]) -> int:
    """Run `work` in a child that is not root."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_store_of_another_user_is_read(
    whole: RunLayout, store_root: Path, make_run_dir: MakeRun
) -> None:
    live = make_run_dir()
    item = Recorder(live, run=live.id, attempt=1)
    item.write(("a",), (1.0,), 1, 0)
    for folder in (store_root, *store_root.parents):
        if folder.stat().st_uid == 0 and folder != Path("/") and "pytest" in str(folder):
            folder.chmod(0o755)

    def work() -> None:
        store = open_store(store_root)
        assert not store.writable
        assert open_store(store_root, create=True).id == store.id
        assert read_run(whole.root, store_root=store_root).problems == ()
        assert read_run(live.root, store_root=store_root).state is RunState.RUNNING
        assert read_run(live.root, store_root=store_root).series["a"].count == 1

    assert as_user(work) == 0

    def without_right() -> None:
        run = read_run(whole.root, store_root=store_root)
        assert run.problems == ("series.json cannot be read: no permission",)
        assert len(list(run_dirs(store_root))) == 2

    whole.series_json.chmod(0)
    closed = store_root / "exp=closed"
    closed.mkdir(mode=0o700)
    assert as_user(without_right) == 0


def test_a_read_only_store_is_read(
    whole: RunLayout, store_root: Path, tmp_path: Path, make_run_dir: MakeRun
) -> None:
    live = make_run_dir()
    frozen = tmp_path / "frozen"
    frozen.mkdir()
    bind = ["mount", "--bind", str(store_root), str(frozen)]
    if subprocess.run(bind, capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(frozen)], check=True)
        store = open_store(frozen)
        assert not store.writable
        assert open_store(store_root).writable
        for layout in (whole, live):
            there = frozen / layout.root.relative_to(store_root)
            run = read_run(there, store_root=frozen)
            assert run.problems == ()
            assert run.state == read_run(layout.root, store_root=store_root).state
    finally:
        subprocess.run(["umount", "-l", str(frozen)], check=True)


def test_the_json_of_a_run_is_what_the_format_says(whole: RunLayout) -> None:
    data = json.loads(whole.status_json.read_text())
    assert data["format"] == 1
    assert data["needs"] == "0.1.0"
    assert set(status.KINDS) <= set(data)
