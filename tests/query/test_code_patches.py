"""`compare --code`: patches between the pinned trees of a real repository."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from expdb.git import patch as git_patch
from expdb.model import Attempt, Pin, Run
from expdb.query.patches import patches
from expdb.report import patch as report
from expdb.report.json import dumps
from expdb.report.style import Style
from tests.query.made import make_run

WHO = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


def git(top: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(
        ["git", *WHO, *args], cwd=top, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def top(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    (work / "train.py").write_text("a = 1\nb = 2\n")
    git(work, "add", ".")
    return work


def pinned(top: Path, run: str) -> Run:
    git(top, "add", "-A")
    git(top, "commit", "-qm", run, "--allow-empty")
    pin = Pin(commit=git(top, "rev-parse", "HEAD"), tree=git(top, "rev-parse", "HEAD^{tree}"))
    return replace(make_run(run, experiment=run[:4]), attempts=(Attempt(number=1, pin=pin),))


def lines(found, *, stat: bool = False, text: bool = True, **style: object) -> list[str]:  # type: ignore[no-untyped-def]
    return report.render(found, Style(**style), stat=stat, text=text)  # type: ignore[arg-type]


def test_the_patch_is_that_of_git(top: Path) -> None:
    first = pinned(top, "k3f9x2m7qd")
    (top / "train.py").write_text("a = 1\nb = 3\nc = 4\n")
    (top / "new.py").write_text("\tx = 1\n")
    second = pinned(top, "t1h6y3cz8r")
    found = patches([first, second], places=[top], text=True)
    said = lines(found)
    assert said[0].startswith("k3f9 k3f9 -> t1h6 t1h6  2 files  ")
    assert said[-6:] == [
        "+++ b/train.py", "@@ -1,2 +1,3 @@", " a = 1", "-b = 2", "+b = 3", "+c = 4",
    ]  # fmt: skip
    assert "+        x = 1" in said  # a tab goes to the next multiple of 8
    coloured = lines(found, color=True)
    assert "\x1b[32m+b = 3\x1b[0m" in coloured
    data = json.loads(dumps({"patches": report.as_json(found, text=True)}))["patches"][0]
    assert [file["path"] for file in data["files"]] == ["new.py", "train.py"]
    # What JSON holds is a patch that git takes.
    git(top, "checkout", "-q", "HEAD~1")
    (top.parent / "p").write_text(data["patch"])
    git(top, "apply", str(top.parent / "p"))
    assert (top / "train.py").read_text() == "a = 1\nb = 3\nc = 4\n"
    assert report.as_json(found, text=False)[0]["patch"] is None


def test_stat_counts_lines(top: Path) -> None:
    first = pinned(top, "k3f9x2m7qd")
    (top / "train.py").write_text("a = 1\nb = 3\nc = 4\n")
    (top / "blob.bin").write_bytes(b"\0\1\2")
    found = patches([first, pinned(top, "t1h6y3cz8r")], places=[top], text=False)
    assert lines(found, stat=True, text=False)[1:] == [
        "  A blob.bin  binary",
        "  M train.py      +2  -1",
        "2 files, +2 -1",
    ]


def test_binary_and_huge_files_are_marks(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pinned(top, "k3f9x2m7qd")
    (top / "blob.bin").write_bytes(b"\0secret bytes")
    (top / "huge.txt").write_text("x" * (git_patch.MAX_FILE_BYTES + 1))
    (top / "many.txt").write_text("y\n" * (git_patch.MAX_LINES + 1))
    (top / "long.txt").write_text("z" * 10_000)
    found = patches([first, pinned(top, "t1h6y3cz8r")], places=[top], text=True)
    said = lines(found)
    assert "Binary files /dev/null and b/blob.bin differ" in said
    assert "Binary files /dev/null and b/huge.txt differ" in said
    assert said[-1] == "left out for its size: many.txt"
    assert found[0].left_out == ("many.txt",)
    assert max(map(len, said)) == report.MAX_LINE
    monkeypatch.setattr(git_patch, "MAX_FILES", 1)
    capped = patches([first, pinned(top, "u1h6y3cz8r")], places=[top], text=True)
    assert len(capped[0].left_out) == 3


def test_no_program_of_the_repository_runs(top: Path) -> None:
    mark = top.parent / "ran"
    (top / ".gitattributes").write_text("*.py diff=bad\n*.txt diff=ext\n")
    (top / "one.txt").write_text("1\n")
    first = pinned(top, "k3f9x2m7qd")
    for key in ("diff.bad.textconv", "diff.ext.command", "diff.external", "core.pager"):
        git(top, "config", key, f"sh -c 'touch {mark}; cat'")
    git(top, "config", "color.ui", "always")
    git(top, "config", "diff.noprefix", "true")
    (top / "train.py").write_text("a = 9\n")
    (top / "one.txt").write_text("2\n")
    found = patches([first, pinned(top, "t1h6y3cz8r")], places=[top], text=True)
    said = lines(found)
    assert not mark.exists()
    assert "+++ b/train.py" in said
    assert "+2" in said


def test_control_characters_of_files_and_names_are_text(top: Path) -> None:
    first = pinned(top, "k3f9x2m7qd")
    (top / "train.py").write_bytes(b"\x1b[31mred\x1b]0;t\x07\r\n\xff\xfe\n\xe2\x80\xaeevil\n")
    (top / "a\x1b[31m\nb.py").write_text("x\n")
    found = patches([first, pinned(top, "t1h6y3cz8r")], places=[top], text=True)
    for line in lines(found, stat=True):
        assert line.isprintable() or not line, ascii(line)
    assert "+\\x1b[31mred\\x1b]0;t\\x07" in lines(found)
    json.loads(dumps({"patches": report.as_json(found, text=True)}))


def test_it_says_why_there_is_no_patch(top: Path, tmp_path: Path) -> None:
    first = pinned(top, "k3f9x2m7qd")
    same = pinned(top, "s1h6y3cz8r")
    bare = replace(same, attempts=(Attempt(number=1, pin=Pin(reasons=("git is not installed",))),))
    pin = replace(same.pin, tree="7" * 40, commit="8" * 40)
    gone = replace(same, id="g2z8r5n1fs", attempts=(Attempt(number=1, pin=pin),))
    said = lines(patches([first, same, bare, gone], places=[top], text=True))
    assert "the same code" in said[0]
    assert said[2].endswith("no patch: s1h6 s1h6: git is not installed")
    assert said[4].endswith("8888888: their commits are not in this repository")
    assert "no patch" in lines(patches([first, gone], places=[tmp_path], text=True))[0]
