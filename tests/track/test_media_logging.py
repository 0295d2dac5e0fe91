"""The logging calls beside points: what is kept, what is refused, and what a kill leaves."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import expdb
from expdb.errors import BadInput, Corrupt
from expdb.store import appending, artifacts, media_recorder
from expdb.store.artifacts import read_artifacts
from expdb.store.media import media_keys, read_media
from expdb.store.media_parts import KINDS
from expdb.store.runs import read_run
from expdb.track import media as track_media
from tests import warm

QUIET = {"expdb": {"print": "quiet"}, "api": {"secret_key": "FAKE-KEY-0001"}}
PIXELS = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)


@pytest.fixture
def run(tmp_path: Path) -> Any:
    with expdb.start(QUIET, store=tmp_path / "runs") as handle:
        yield handle


def rows(run: Any, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_media(run.dir, kind).to_pylist()
    return found


def kept(run: Any) -> Any:
    return read_run(run.dir, store_root=run.store.root)


def test_each_call_is_on_disk_when_it_returns(run: Any) -> None:
    run.step = 4
    run.log_text("sample", "once upon\na time")
    assert rows(run, "text")[0]["text"] == "once upon\na time"
    run.log_hist("layer/w", torch.ones(3, requires_grad=True), step=7, bins=2)
    assert rows(run, "hist")[0]["counts"] == [0, 3]
    run.log_table("confusion", [{"a": 1, "b": math.nan}, {"a": "x"}])
    run.log_table("wide", columns={"a": [1.5]}, step=9)
    [first, second] = rows(run, "table")
    assert (first["columns"], json.loads(first["rows"])) == (["a", "b"], [[1, "NaN"], ["x", None]])
    assert (second["step"], second["num_rows"], second["rows"]) == (9, 1, "[[1.5]]")
    run.log_image("attention", PIXELS, caption="head 3")
    [image] = rows(run, "image")
    assert (image["width"], image["height"], image["format"]) == (2, 2, "png")
    assert (image["caption"], image["image"][:4]) == ("head 3", b"\x89PNG")
    heads = [(row["key"], row["step"], row["attempt"], row["rank"]) for kind in KINDS
             for row in rows(run, kind)]  # fmt: skip
    assert heads == [
        ("sample", 4, 1, 0), ("layer/w", 7, 1, 0), ("confusion", 4, 1, 0), ("wide", 9, 1, 0),
        ("attention", 4, 1, 0),
    ]  # fmt: skip
    before = {kind: rows(run, kind) for kind in KINDS}
    run.finish()
    assert {kind: rows(run, kind) for kind in KINDS} == before
    listed = json.loads((run.dir / "status.json").read_text())["files"]
    assert {f"media/{kind}-a1-r0-1.parquet" for kind in KINDS} <= set(listed)


def test_keys_are_any_text_but_an_empty_one(run: Any) -> None:
    names = ["Loss", "loss", "a b/é\x1b", "../x", "損失", "x" * 600, "x' OR 1=1 --"]
    for name in names:
        run.log_text(name, name)
    assert sorted(row["key"] for row in rows(run, "text")) == sorted(names)
    for wrong in ("", 3, None, "\ud800", "x" * 70_000):
        with pytest.raises(BadInput, match="key"):
            run.log_text(wrong, "x")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda run: run.log_text("a/b", 3), "a/b at step 5 is int, not text"),
        (lambda run: run.log_text("a/b", b"x"), "a/b at step 5 is bytes, not text"),
        (lambda run: run.log_text("a/b", "x" * 101), "a/b at step 5 has 101 bytes, over 100"),
        (lambda run: run.log_hist("w", torch.empty(0)), "w at step 5 is an empty Tensor"),
        (lambda run: run.log_hist("w", [1.0], bins=0), "w at step 5 has 0 bins"),
        (lambda run: run.log_hist("w", [1.0], bins=True), "w at step 5 has True bins"),
        (lambda run: run.log_hist("w", [1.0], bins=5000), "w at step 5 has 5000 bins"),
        (lambda run: run.log_table("t", [{"a": []}]), "t at step 5: column 'a', row 0"),
        (lambda run: run.log_table("t", [{"a": "x" * 100}]), "t at step 5 has 106 bytes"),
        (lambda run: run.log_image("i", b"GIF"), "i at step 5 is 3 bytes that are neither"),
        (lambda run: run.log_text("a", "x", step=2.5), "a step is 2.5"),
        (lambda run: run.alert("x", level="bad"), "the level of an alert is 'bad'"),
        (lambda run: run.artifact("nowhere"), "'nowhere' does not exist"),
        (lambda run: run.artifact("/proc/self/mem"), "'mem' cannot be read"),
    ],
)
def test_a_bad_call_is_refused_whole_and_by_name(
    run: Any, call: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(track_media, "MAX_BYTES", 100)
    run.step = 5
    with pytest.raises(BadInput) as caught:
        call(run)
    assert words in caught.value.message
    assert media_keys(run.dir, problems=[]) == ()
    assert kept(run).events == ()


def test_secrets_are_taken_out_of_all_text(run: Any, tmp_path: Path) -> None:
    run.log_text("a", "key FAKE-KEY-0001 and proto://u:FAKE-PW@h/x, \ud800 kept: a=b")
    run.log_table("t", [{"a": "FAKE-KEY-0001"}])
    run.log_image("i", PIXELS, caption="of FAKE-KEY-0001")
    run.alert("no login with FAKE-KEY-0001")
    (tmp_path / "x").write_text("x")
    run.artifact(tmp_path / "x", name="FAKE-KEY-0001.txt")
    assert "? kept: a=b" in rows(run, "text")[0]["text"]
    run.finish()
    for path in run.dir.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert b"FAKE-KEY" not in data, path
            assert b"FAKE-PW" not in data, path
    for kind in KINDS:
        assert "FAKE" not in str(rows(run, kind))


def test_an_alert_is_an_event_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with expdb.start({"expdb": {"print": "lines"}}, store=tmp_path / "runs") as run:
        run.step = 3
        run.alert("loss looks odd")
        run.alert("stop this", level="critical", step=9)
        run.alert("half way", level="info")
    found = [(e.step, e.severity, e.rule, e.message) for e in kept(run).events]
    assert found == [
        (3, "warn", "alert", "loss looks odd"),
        (9, "critical", "alert", "stop this"),
        (3, "info", "alert", "half way"),
    ]
    said = capsys.readouterr().err
    assert "warn   alert: loss looks odd" in said
    assert "critical alert: stop this" in said
    assert "info   alert: half way" in said


def test_artifacts_are_copies_by_name(run: Any, tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "a.txt").write_text("1")
    run.artifact(tmp_path / "samples")
    run.artifact(str(tmp_path / "samples" / "a.txt"), name="best/α.txt")
    (tmp_path / "samples" / "a.txt").write_text("changed later")
    found = read_artifacts(run.layout, [])
    assert [(item.name, [file.name for file in item.files]) for item in found] == [
        ("samples", ["a.txt"]),
        ("best/α.txt", [""]),
    ]
    assert {(run.dir / file.path).read_text() for item in found for file in item.files} == {"1"}


def test_after_the_end_and_in_a_fork_nothing_is_taken(run: Any, tmp_path: Path) -> None:
    calls = [
        lambda: run.log_text("a", "b"), lambda: run.log_hist("a", [1]),
        lambda: run.log_table("a", [{"b": 1}]), lambda: run.log_image("a", PIXELS),
        lambda: run.alert("x"), lambda: run.artifact(tmp_path),
    ]  # fmt: skip
    run.log_text("a", "of the parent")
    child = os.fork()
    if child == 0:
        refused = 0
        for call in calls:
            try:
                call()
            except BadInput:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)
    run.finish()
    for call in calls:
        with pytest.raises(BadInput, match="has ended"):
            call()
    assert [row["text"] for row in rows(run, "text")] == ["of the parent"]


# ---------------------------------------------------------------------------- a full disk, a kill


def test_training_outlives_a_full_disk_and_finish_says_what_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = expdb.start(QUIET, store=tmp_path / "runs")
    real, full = os.write, [True]

    def write(fd: int, data: bytes) -> int:
        if full[0] and b'"kind"' in bytes(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(appending.os, "write", write)
    for step in range(5):
        run.log_text("a", str(step), step=step)
        run.log({"x": 1.0}, step=step)
    assert rows(run, "text") == []
    assert capsys.readouterr().err.count("media wait in memory") == 1
    with pytest.raises(Corrupt, match="no space left"):
        run.finish()
    full[0] = False
    run.finish()
    assert [row["text"] for row in rows(run, "text")] == list("01234")
    assert kept(run).state == "finished"


def test_dropped_media_are_counted_in_the_status(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_recorder, "WAITING_BYTES", 0)
    monkeypatch.setattr(media_recorder.MediaRecorder, "_append", no_space)
    run.log_text("a", "b")
    monkeypatch.undo()
    run.finish()
    assert kept(run).num_dropped == 1


def no_space(*args: Any, **kwargs: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_artifact_waits_for_a_full_disk_while_its_file_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = expdb.start(QUIET, store=tmp_path / "runs")
    for name in "ab":
        (tmp_path / name).write_text(name)
    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "make_dir", no_space)
        run.artifact(tmp_path / "a")
        run.artifact(tmp_path / "b")
    (tmp_path / "a").unlink()
    run.note("the disk is back")
    assert [item.name for item in read_artifacts(run.layout, [])] == ["b"]
    assert kept(run).notes == ("the disk is back",)
    said = capsys.readouterr().err
    assert "the artifact a waits in memory" in said
    assert "'a' cannot be read: No such file or directory; it is not kept" in said
    run.finish()


KILLED = """
import os, signal, sys, expdb
run = expdb.start({"expdb": {"print": "quiet"}}, store=sys.argv[1], name="exp01")
for step in range(50):
    run.log_text("sample", f"text {step}", step=step)
    run.log_hist("w", [float(step), 1.0], step=step)
run.artifact(sys.argv[2])
run.alert("about to die")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_keeps_what_its_calls_logged(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    root = tmp_path / "runs"
    (tmp_path / "killed.py").write_text(KILLED)
    words = [str(tmp_path / "killed.py"), str(root), str(tmp_path / "x.txt")]
    done = warm.run(words, cwd=tmp_path, env={**os.environ}, libraries=warm.LIGHT)
    assert done.returncode == -signal.SIGKILL
    [folder] = root.glob("exp=*/run=*")
    wanted = [f"text {step}" for step in range(50)]
    assert read_media(folder, "text")["text"].to_pylist() == wanted
    # The next index build seals it.
    store = expdb.open(root)
    assert store.run("exp01").record.state == "crashed"
    assert sorted(path.name for path in (folder / "media").iterdir()) == [
        "hist-a1-r0-1.parquet",
        "text-a1-r0-1.parquet",
    ]
    assert list(folder.glob("attempts/1/*.wal")) == []
    assert read_media(folder, "text")["text"].to_pylist() == wanted


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_histogram_of_a_device_tensor_arrives_without_a_sync(run: Any) -> None:
    values = torch.arange(8.0, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run.log_hist("w", values, step=1, bins=2)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    run.finish()
    assert rows(run, "hist")[0]["counts"] == [4, 4]
