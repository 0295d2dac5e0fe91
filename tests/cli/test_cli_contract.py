from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from expdb.cli import reference
from expdb.cli.exit import ExitCode
from expdb.cli.verbs import all_verbs

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "duckdb", "hydra", "pyarrow", "textual", "rich", "numpy", "omegaconf")


@pytest.mark.parametrize("args", [["--help"], ["--version"]])
def test_help_loads_click_and_nothing_heavy(args, lab):
    code = (
        "import sys; from expdb.cli.main import main; code = main(sys.argv[1:]);"
        f"print('LOADED', [m for m in {HEAVY!r} if m in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        env=lab.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_help_names_every_verb_with_a_line(here):
    done = here("--help")
    for name, verb in all_verbs().items():
        assert re.search(rf"^  {name} +{re.escape(verb.help)}$", done.out, re.M), name


@pytest.mark.parametrize("verb", list(all_verbs()))
def test_every_verb_has_help(here, verb):
    done = here(verb, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: expdb {verb}")


def test_an_unknown_verb_names_the_nearest(lab):
    done = lab.run("comprae")
    assert done.code == 2
    assert done.out == ""
    assert done.err == "error: no verb is called comprae\nhint: nearest: compare, completion\n"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("ls", "--foo"), 2, "no such option"),
        (("show",), 2, "show wants RUN"),
        (("tag", "a\udcff", "exp01"), 2, "the name 'a\\udcff' is not UTF-8 text"),
        (("label", "exp01", "a\udcff"), 2, "the label 'a\\udcff' is not UTF-8 text"),
        (("note", "exp01", "a\udcff"), 2, "the note is not UTF-8 text"),
        (("sql", "select 'a\udcff'"), 2, "the statement is not UTF-8 text"),
        (("rank", "a\udcff"), 3, "a\\udcff"),
        (("show", "a\udcff"), 3, "no run, ref or experiment is called a\\udcff"),
        (("ls", "-n", "1_0"), 2, "'1_0' is not a whole number"),
        (("ls", "-n", "１"), 2, "is not a whole number"),
        (("ls", "-n", "0"), 2, "0 is not in the range"),
        (("tail", "-n", "9" * 50), 2, "is not a whole"),
        (("ctl", "exp01", "save", "--wait", "nan"), 2, "is not a number of seconds"),
        (("resume", "exp01@10", "--lr-scale", "nan"), 2, "'nan' is not a number above 0"),
        (("resume", "exp01@10", "--lr-scale", "0"), 2, "0.0 is not in the range"),
        (("resume", "exp01@10", "--lr-scale", "1e999"), 2, "inf is not in the range"),
        (("resume", "exp01@10", "--skip-batches", "1.5"), 2, "'1.5' is not a whole number"),
        (("resume", "exp01@11"), 3, "has no checkpoint 11; it has 10, 20"),
        (("probe", "speed", "exp01"), 2, "no probe is called speed; there is repro,"),
        (("probe", "repro"), 2, "repro wants RUN"),
        (("probe", "repro", "exp01", "--rtol", "-1"), 2, "is not a number"),
        (("rerun", "exp01@10"), 2, "name it without a step"),
        (("ls", "--since", "２d"), 2, "is no time"),
        (("compare", "exp01"), 2, "compare needs two runs or more"),
        (("compare", "baseline", "exp01", "--fail-if", "x"), 2, "'x' is not one of"),
        (("rollback", "--continue", "--abort"), 2, "exclude each other"),
        (("rollback", "--branch", "x"), 2, "--branch needs --worktree"),
        (("rollback", "exp01", "--abort"), 2, "take neither RUN"),
        (("rollback", "--worktree", "x", "--dry-run"), 2, "--worktree takes neither --dry-run"),
        (("rollback", "--worktree", "x", "--force"), 2, "--worktree takes neither --dry-run"),
        (("-C", "nowhere", "ls"), 2, "-C nowhere: no such file"),
        (("show", "exp1"), 3, "no run, ref or experiment is called exp1"),
        (("show", "exp01@15"), 3, "has no checkpoint 15"),
        (("rank", "val/los"), 3, "val/los"),
        (("--store", "nowhere", "ls"), 3, "nowhere is not a store"),
        (("undo", "zzzz"), 3, "zzzz"),
        (("baseline", "exp09_nan"), 4, "cannot be the baseline"),
        (("resume", "exp01"), 4, "is finished"),
        (("tui",), 2, "needs a terminal"),
    ],
)
def test_errors_have_a_code_one_line_and_no_traceback(here, args, code, said):
    done = here(*args)
    assert done.code == code
    assert done.out == ""
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert said in errors[0]
    assert not errors[0].endswith(".")
    assert "Traceback" not in done.err


def test_debug_shows_the_traceback_first_and_the_same_lines_last(here):
    plain = here("show", "exp1")
    debug = here("--debug", "show", "exp1")
    assert debug.err.startswith("Traceback")
    assert debug.err.endswith(plain.err)


def test_no_store_is_said_with_the_way_to_one(here, tmp_path):
    done = here("-C", str(tmp_path), "ls")
    assert done.code == 3
    assert done.err.startswith("error: no store above this folder")
    assert "hint: make one: " in done.err


def test_a_store_of_a_newer_format_is_refused(own_lab, mine):
    path = own_lab.top / "runs/.expdb/store.json"
    path.write_text(path.read_text().replace('"format":1', '"format":3'))
    done = mine("ls")
    assert done.code == 5
    assert "has format 3" in done.err


def test_an_empty_store_says_how_to_begin(lab, here, tmp_path):
    (tmp_path / "empty/.expdb").mkdir(parents=True)
    store = lab.top / "runs/.expdb/store.json"
    (tmp_path / "empty/.expdb/store.json").write_bytes(store.read_bytes())
    done = here("--store", str(tmp_path / "empty"), "ls")
    assert (done.code, done.out) == (0, "")
    assert "no runs yet in the store" in done.err
    assert "hint: python train.py +exp=baseline" in done.err


def test_the_environment_names_the_store(lab, here, tmp_path, monkeypatch):
    monkeypatch.setenv("EXPDB_STORE", str(lab.top / "runs"))
    done = here("-C", str(tmp_path), "ls", "-q")
    assert done.code == 0
    assert len(done.out.split()) == 8


def test_hints_can_be_switched_off(here, monkeypatch):
    assert "hint:" in here("show", "exp1").err
    monkeypatch.setenv("EXPDB_HINTS", "0")
    assert "hint:" not in here("show", "exp1").err


def without_ages(text: str) -> list[str]:
    return [word for word in text.split() if not re.fullmatch(r"\d+[sm]", word)]


def test_a_pipe_is_plain_and_colour_can_be_forced(lab, here, monkeypatch):
    plain = lab.run("ls")
    assert plain.out.isascii()
    assert "\x1b" not in plain.out + plain.err
    monkeypatch.setenv("FORCE_COLOR", "1")
    forced = here("ls")
    assert "\x1b[" in forced.out
    assert without_ages(re.sub(r"\x1b\[[0-9;]*m", "", forced.out)) == without_ages(plain.out)
    monkeypatch.setenv("NO_COLOR", "1")
    neither = here("ls")
    assert "\x1b" not in neither.out


def test_hostile_names_are_shown_as_text(here):
    for args in (("ls",), ("rank",), ("status",), ("show", "best:train/loss", "--all")):
        done = here(*args)
        assert "\x1b" not in done.out + done.err
        assert "\u202e" not in done.out + done.err
    assert "\\x1b[31m[red]\\u202eevil" in here("ls").out


def test_a_reader_that_leaves_early_is_no_error(lab):
    command = f"{sys.executable} -m expdb.cli.main ls --json | head -c 10"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}; exit ${{PIPESTATUS[0]}}"],
        cwd=lab.top,
        env=lab.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0


def on_a_terminal(
    lab, *args: str, answer: str = "", interrupt: bool = False, **env: str
) -> tuple[int, str]:
    """Run `expdb` on a pseudo terminal and return (code, everything on the screen)."""
    main_fd, other_fd = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "expdb.cli.main", *args],
        cwd=lab.top,
        env={**lab.env, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **env},
        stdin=other_fd,
        stdout=other_fd,
        stderr=other_fd,
        close_fds=True,
        # A test run in the background of a shell hands an ignored SIGINT down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(other_fd)
    screen = b""
    while True:
        ready, _, _ = select.select([main_fd], [], [], 60)
        if not ready:
            process.kill()
            break
        try:
            chunk = os.read(main_fd, 65536)
        except OSError:
            break
        if not chunk:
            break
        screen += chunk
        if answer and b"[y/N]" in screen:
            os.write(main_fd, answer.encode())
            answer = ""
        if interrupt and b"[y/N]" in screen:
            process.send_signal(signal.SIGINT)
            interrupt = False
    os.close(main_fd)
    return process.wait(), screen.decode().replace("\r\n", "\n")


def test_a_terminal_gets_glyphs_and_colour(lab):
    code, screen = on_a_terminal(lab, "ls")
    assert code == 0
    assert "✓ finished" in screen
    assert "\x1b[32m" in screen
    assert "* " in screen


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"EXPDB_ASCII": "1", "NO_COLOR": "1"}])
def test_a_poor_terminal_gets_ascii_and_no_colour(lab, env):
    code, screen = on_a_terminal(lab, "ls", **env)
    assert code == 0
    assert screen.isascii()
    assert "+ finished" in screen
    assert "\x1b" not in screen


def test_a_question_is_answered_with_no_by_enter(own_lab):
    code, screen = on_a_terminal(own_lab, "rollback", answer="\n", NO_COLOR="1")
    assert code == 4
    assert "roll back? [y/N]" in screen
    assert screen.rstrip().endswith("nothing written")
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 2\n"


def test_a_question_is_answered_with_yes(own_lab):
    code, screen = on_a_terminal(own_lab, "rollback", answer="y\n", NO_COLOR="1")
    assert code == 0
    assert "the 1 edit is saved first; expdb undo brings it back" in screen
    assert "rolled back to" in screen
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 1\n"


def test_ctrl_c_at_the_question_ends_with_130_and_writes_nothing(own_lab):
    code, screen = on_a_terminal(own_lab, "rollback", interrupt=True, NO_COLOR="1")
    assert code == 130
    assert "Traceback" not in screen
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 2\n"


def test_a_fault_of_expdb_is_one_line_and_its_own_code(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "expdb.query.listing", None)
    done = here("ls")
    assert done.code == 70
    assert done.err.startswith("error: a fault in expdb: ModuleNotFoundError")
    assert "Traceback" not in done.err


def test_closed_streams_are_no_error(lab):
    command = f"{sys.executable} -m expdb.cli.main ls >&-"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=lab.top,
        env=lab.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_exit_code_says_when():
    assert {int(code) for code in ExitCode} == {0, 1, 2, 3, 4, 5, 70, 130}
    assert all(code.__doc__ and code.__doc__ != ExitCode.__doc__ for code in ExitCode)


def test_the_reference_is_up_to_date():
    path = ROOT / "docs/cli.md"
    assert path.read_text(encoding="utf-8") == reference.render()
