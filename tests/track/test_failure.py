"""What is kept of an error: the whole traceback in the log, bounded, and never the error's own
faults."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.redact import Redactor
from expdb.store.last_words import INDENT, MARK, read_traceback
from expdb.store.runs import read_run
from expdb.track import failure

QUIET = {"expdb": {"print": "quiet"}, "hub": {"api_key": "sk-live-4711-0815"}}


class Unspeakable(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Huge(Exception):
    """An error with a text of many megabytes."""

    def __str__(self) -> str:
        return "x" * 20_000_000


def end_with(root: Path, error: BaseException, runs: list[Any], *, is_full: bool = False) -> None:
    with expdb.start(QUIET, store=root) as run:
        runs.append(run)
        run.log({"val/loss": 1.0}, step=1)
        if is_full:  # a folder in its place: the status can be replaced no more
            status = run.dir / "status.json"
            status.unlink()
            status.mkdir()
        raise error


def failed(root: Path, error: BaseException, **more: Any) -> Any:
    """Return the handle of a run that ended with an error; the error came out unchanged."""
    before = dict(vars(error)), error.args, error.__cause__
    runs: list[Any] = []
    with pytest.raises(type(error)) as caught:
        end_with(root, error, runs, **more)
    assert caught.value is error
    assert (dict(vars(error)), error.args, error.__cause__) == before
    return runs[0]


def kept(run: Any) -> list[str]:
    return read_traceback(run.dir / "attempts" / "1" / "log.txt")


def test_notes_causes_and_groups_are_kept_as_python_shows_them(tmp_path: Path) -> None:
    cause = KeyError("cause")
    error = ExceptionGroup("many", [ValueError("bad\nsecond line"), TypeError("worse")])
    error.add_note("while loading shard 7")
    error.__cause__ = cause
    run = failed(tmp_path / "runs", error)
    assert read_run(run.dir, store_root=run.store.root).state == "failed"
    found = "\n".join(kept(run))
    whole = [line.rstrip() for line in "".join(traceback.format_exception(error)).splitlines()]
    # Below this test stands what called it; the rest is line for line what Python prints.
    assert found.splitlines()[-8:] == whole[-8:]
    for said in ("KeyError: 'cause'", "The above exception was the direct cause", "second line",
                 "while loading shard 7", "TypeError: worse", "raise error"):  # fmt: skip
        assert said in found
    log = (run.dir / "attempts" / "1" / "log.txt").read_text()
    assert log.index(MARK) < log.index("\nfailed  adhoc")


def test_an_error_without_a_text_is_kept_and_goes_on(tmp_path: Path) -> None:
    run = failed(tmp_path / "runs", Unspeakable())
    assert kept(run)[-1].endswith("Unspeakable: <exception str() failed>")
    reason = read_run(run.dir, store_root=run.store.root).reason
    assert reason == "Unspeakable: its text cannot be made: RuntimeError"


def test_a_huge_text_is_cut(tmp_path: Path) -> None:
    run = failed(tmp_path / "runs", Huge())
    reason = read_run(run.dir, store_root=run.store.root).reason
    assert len(reason) < failure.MAX_CHARS + 100
    last = kept(run)[-1]
    assert last.startswith(f"{__name__.rpartition('.')[2]}.Huge: xxx") or "Huge: xxx" in last
    assert " characters ... xxx" in last
    assert (run.dir / "attempts" / "1" / "log.txt").stat().st_size < 3 * failure.MAX_BYTES


def test_the_end_of_a_long_traceback_is_kept() -> None:
    error = ValueError("\n".join(f"line {number}" for number in range(100_000)))
    lines = failure.traceback_lines(error, Redactor())
    assert lines[-1] == "line 99999"
    assert lines[0] == "... the first lines are left out: more than 64 KiB"
    assert lines[1].startswith("line ")
    size = sum(len(line) + 1 for line in lines[1:])
    assert failure.MAX_BYTES - 20 < size <= failure.MAX_BYTES


def test_secrets_are_taken_out_before_the_first_byte(tmp_path: Path) -> None:
    run = failed(tmp_path / "runs", ValueError("refused: sk-live-4711-0815 and hf_token=abc"))
    written = b"".join(path.read_bytes() for path in run.dir.rglob("*") if path.is_file())
    assert b"4711-0815" not in written
    assert "ValueError: refused: <redacted> and hf_token=<redacted>" in kept(run)


@pytest.mark.parametrize("url", ["", "://"])
@pytest.mark.parametrize("at", range(0, 9000, 311))
def test_no_half_of_a_secret_stands_at_a_cut(at: int, url: str) -> None:
    secret = "sk-" + "A1" * (400 if url else 4000)
    redactor = Redactor([secret])
    assert "A1" not in failure.clipped(url + "." * at + secret + "." * 9000, redactor)
    assert "A1" not in failure.clipped("." * 9000 + secret + "." * at + url, redactor)


def test_text_that_looks_like_a_log_is_set_in(tmp_path: Path) -> None:
    error = ValueError(f"finished  adhoc x  1 step\n{MARK}\n\x1b[31m\n\nlast")
    run = failed(tmp_path / "runs", error)
    lines = (run.dir / "attempts" / "1" / "log.txt").read_text().split("\n")
    assert lines.count(MARK) == 1
    assert not any(line.startswith("finished") for line in lines)
    assert f"{INDENT}finished  adhoc x  1 step" not in lines  # it stands behind the error's name
    found = kept(run)
    assert found[-1] == "last"
    assert found[-2] == ""
    assert not any("\x1b" in line for line in found)


def test_a_store_that_fails_too_does_not_hide_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = failed(tmp_path / "runs", ValueError("the first"), is_full=True)
    assert "could not be finished" in capsys.readouterr().err
    assert kept(run)[-1] == "ValueError: the first"


@pytest.mark.parametrize("text", ["", "traceback", "x\ntraceback\nfailed", "traceback\n  |\n  | a"])
def test_a_log_is_read_whatever_it_holds(tmp_path: Path, text: str) -> None:
    log = tmp_path / "log.txt"
    log.write_text(text)
    assert read_traceback(log) == (["", "a"] if text.endswith("a") else [])
    log.write_bytes(b"\xff" * 400_000 + b"\ntraceback\n  | \xff\n")
    assert read_traceback(log) == ["\\xff"]
    assert read_traceback(tmp_path / "none") == []
