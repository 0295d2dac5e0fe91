"""What a run says, on a terminal, through a pipe, and when nobody can hear it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

import pytest

from expdb.model import Objective
from expdb.redact import Redactor
from expdb.track.console import Console

LOSS = Objective(metric="val/loss")


class Terminal(StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return Terminal()


def started(stream: TextIO, **options: Any) -> tuple[Console, dict[str, tuple[int, float]]]:
    console = Console(stream, **options)
    latest: dict[str, tuple[int, float]] = {}
    console.introduce(
        ["exp01  t1h6y3cz8r  seed 0  from scratch", "  parent     none"],
        experiment="exp01",
        run="t1h6",
        objective=LOSS,
        base_name="k3f9",
        base_values={0: 5.587, 50: 2.670},
        latest=lambda: latest,
    )
    return console, latest


def lines_of(stream: StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def say_all(console: Console, latest: dict[str, tuple[int, float]]) -> None:
    console.data("train", "pydoc", 434_049)
    console.data("val", "pydoc", 32_222)
    latest.update({"val/loss": (0, 5.587), "val/ppl": (0, 267.0), "eval/cloze/acc": (0, 0.215)})
    console.evaluated(0)
    for step in range(1, 113):
        lr = 0.003667 if step <= 10 else 0.01
        console.step(step, 300, loss=4.812, lr=lr, tokens_per_s=18_100, eta_s=32)
    latest.update({"val/loss": (50, 2.740), "eval/cloze/acc": (50, 0.285)})
    console.evaluated(50)
    console.saved(100, 4_600_000)
    console.warn(112, "grad_spike: train/grad_norm 3.418", "once is harmless")
    console.saved(300, 4_600_000, [100], "keep: last 2, best 1")


SAID = """\
exp01  t1h6y3cz8r  seed 0  from scratch
  parent     none
  data       pydoc, 434,049 train and 32,222 val bytes

  step   0   eval   val/loss 5.587   vs k3f9  0.000   eval/cloze/acc 0.215
  step  50   eval   val/loss 2.740   vs k3f9 +0.070   eval/cloze/acc 0.285
  step 100   saved  checkpoint, 4.6 MB
  step 112   warn   grad_spike: train/grad_norm 3.418
                    runbook: once is harmless
  step 300   saved  checkpoint, 4.6 MB; step 100 removed (keep: last 2, best 1)
""".splitlines()


def test_through_a_pipe_there_are_whole_lines_only_and_the_log_has_the_same(tmp_path: Path) -> None:
    stream = StringIO()
    console, latest = started(stream, log_path=tmp_path / "log.txt")
    say_all(console, latest)
    console.close()
    lines = lines_of(stream)
    train = [line for line in lines if " train  " in line]
    assert [line for line in lines if line not in train] == SAID
    assert train[0] == "  step  10   train  loss 4.812   lr 0.003667  18.1k tok/s   eta 0:32"
    assert train[1] == "  step  20   train  loss 4.812   lr 0.01      18.1k tok/s   eta 0:32"
    assert len(train) == 11
    assert not set(stream.getvalue()) & set("\r\x1b")
    assert (tmp_path / "log.txt").read_text().splitlines() == lines


def test_a_run_has_at_most_a_hundred_train_lines() -> None:
    for steps in (30, 300, 999, 1000, 12_345):
        stream = StringIO()
        console, _ = started(stream)
        for step in range(steps + 1):
            console.step(step, steps, loss=1.0, lr=0.1)
        assert len([line for line in lines_of(stream) if " train " in line]) <= 100


def test_on_a_terminal_the_bar_stands_below_the_lines(terminal: Terminal, tmp_path: Path) -> None:
    console, latest = started(terminal, log_path=tmp_path / "log.txt")
    say_all(console, latest)
    console.step(180, 300, loss=2.131, tokens_per_s=18_300, eta_s=14)
    console.phase("evaluating 3/8")
    assert terminal.getvalue().endswith("180/300  evaluating 3/8\x1b[K")
    console.phase(None)
    console.close_bar()
    assert terminal.getvalue().endswith("eta 0:14\x1b[K\r\x1b[K")
    # What a terminal shows in the end: each return starts the line anew, the erase clears it.
    shown = [
        line.rsplit("\r", 1)[-1].removeprefix("\x1b[K") for line in terminal.getvalue().split("\n")
    ]
    assert [line for line in shown if line] == [line for line in SAID if line]
    # The log has the train lines that the bar stands for.
    assert "   train  " in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize("name", ["dumb", ""])
def test_a_poor_terminal_gets_lines_in_ascii(
    terminal: Terminal, name: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TERM", name or "dumb")
    console, _ = started(terminal)
    console.line("  optim.lr  0.003 → 0.01, noise ±0.022")
    console.step(10, 300, loss=1.0)
    assert "  optim.lr  0.003 -> 0.01, noise +-0.022\n" in terminal.getvalue()
    assert "\r" not in terminal.getvalue()


def test_an_eval_line_shows_what_fits_and_counts_the_rest() -> None:
    stream = StringIO()
    console, latest = started(stream)
    for number in range(6):
        latest[f"eval/task{number}/acc"] = (50, 0.5)
        latest[f"eval/task{number}/acc_stderr"] = (50, 0.01)
    latest["val/loss"] = (50, 2.7)
    latest["train/loss"] = (50, 9.0)
    console.evaluated(50)
    line = lines_of(stream)[-1]
    assert line == (
        "  step  50   eval   val/loss 2.700   vs k3f9 +0.030   eval/task0/acc 0.500   +5 more"
    )
    console.evaluated(60)
    assert lines_of(stream)[-1] == line  # nothing was evaluated there


def test_hostile_names_are_shown_as_text() -> None:
    stream = StringIO()
    console, _ = started(stream)
    console.line("exp\x1b[31m\nevil\u202e\r")
    console.experiment = "x"
    assert lines_of(stream)[-1] == "exp\\x1b[31m\\x0aevil\\u202e\\x0d"


def test_secrets_are_kept_out_of_lines(tmp_path: Path) -> None:
    stream = StringIO()
    console, _ = started(stream, redactor=Redactor(["FAKE-1"]), log_path=tmp_path / "log.txt")
    console.line("cannot log in with FAKE-1 at https://u:pw@h")
    console.close()
    assert lines_of(stream)[-1] == "cannot log in with <redacted> at https://<redacted>@h"
    assert "FAKE" not in (tmp_path / "log.txt").read_text()


def test_quiet_says_warnings_only_and_logs_all(tmp_path: Path) -> None:
    stream = StringIO()
    console, latest = started(stream, mode="quiet", log_path=tmp_path / "log.txt")
    say_all(console, latest)
    console.warning("mind this")
    assert stream.getvalue() == "warning: mind this\n"
    assert set(SAID) <= set((tmp_path / "log.txt").read_text().splitlines())


def test_hints_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def say(**options: Any) -> list[str]:
        stream = StringIO()
        console = Console(stream, **options)
        console.labelled("resume", "expdb resume t1h6")
        console.hint("do this")
        return lines_of(stream)

    assert say() == ["resume:    expdb resume t1h6", "hint: do this"]
    assert say(hints=False) == []
    monkeypatch.setenv("EXPDB_HINTS", "0")
    assert say() == []


def test_a_full_disk_under_the_log_stops_nothing() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    stream = StringIO()
    console, latest = started(stream, log_path=Path("/dev/full"))
    say_all(console, latest)
    console.close()
    assert lines_of(stream)[-1] == SAID[-1]


SCRIPT = """
import sys
from expdb.track.console import Console
console = Console()
for step in range(1, 50):
    console.step(step, 50, loss=1.0)
    console.line(f"line {step}")
console.close()
sys.stdout.write("trained")
"""


@pytest.fixture
def gone() -> Iterator[int]:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def test_training_goes_on_when_nobody_hears(gone: int) -> None:
    def run(**streams: Any) -> bytes:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, check=True, **streams
        )
        return done.stdout

    assert run(stderr=gone) == b"trained"
    assert run(preexec_fn=lambda: os.close(2)) == b"trained"
    # A terminal that is closed while the bar is drawn.
    leader, follower = pty.openpty()
    os.close(leader)
    assert run(stderr=follower, env={**os.environ, "TERM": "xterm"}) == b"trained"
    os.close(follower)
