"""docs/versioning.md: each state has a row, each row a test, and its rescue is run as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from expdb.actions.change import Goal, carry_out
from expdb.store.store import open_store
from tests.git.states import STATES

ROOT = Path(__file__).resolve().parents[2]
DOC = (ROOT / "docs/versioning.md").read_text(encoding="utf-8")
TABLE = "test_git_states"


def rows():
    """(state, pin, rollback, test) of each row."""
    _, _, table = DOC.partition("| state of the repository |")
    lines = table.partition("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def test_each_state_has_its_row_and_each_row_of_the_table_its_state():
    listed = [row[0] for row in rows() if row[3] == f"`{TABLE}`"]
    assert listed == list(STATES)
    assert (ROOT / f"tests/git/{TABLE}.py").is_file()


def test_rows_say_what_the_states_do():
    for name, pin, rollback, test in rows():
        if test == f"`{TABLE}`":
            state = STATES[name]
            assert rollback.startswith("refused: ") is bool(state.refused), name
            assert ("says" in pin) is bool(state.reasons), name


def test_each_named_test_exists():
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = {row[3].strip("`") for row in rows()} - {TABLE}
    named |= {name for name in re.findall(r"`(test_\w+)`", DOC) if name != TABLE}
    for name in named:
        assert re.search(rf"^def {name}\(", code, re.M), name


def commands():
    rescue = DOC.split("## Rescue with plain git")[1].split("\n## ")[0]
    return [line.strip() for line in rescue.splitlines() if line.startswith("    ")]


def run(top, command, **names):
    for name, value in names.items():
        command = command.replace(f"<{name}>", value)
    assert "<" not in command, command
    done = subprocess.run(command, shell=True, cwd=top, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow
def test_the_rescue_of_the_doc_brings_everything_back(repo, tmp_path):
    repo.write(".gitattributes", "*.txt text=auto\n")
    repo.commit("third")
    repo.edit_every_way()
    repo.write("mixed.txt", b"a\r\nb\n")
    disk, staged = repo.disk(), repo.git("ls-files", "-s")
    tree = repo.text("rev-parse", "HEAD~2^{tree}")
    store = open_store(tmp_path / "store", create=True)
    done = carry_out(store, repo.worktree, Goal(kind="rollback", what="x", tree=tree, commit=tree))
    assert repo.disk() != disk
    assert len(commands()) == 5
    listing, restore, index, raw, code = commands()
    ref = run(repo.top, listing).split("\n")[0].split()[-1]
    op = ref.rpartition("/")[2]
    assert op == done.op.id
    run(repo.top, restore, op=op)
    run(repo.top, index, op=op)
    run(repo.top, raw.replace("> <path>", "> " + shlex.quote("mixed.txt")), op=op, path="mixed.txt")
    assert repo.disk() == disk
    listed = repo.git("ls-files", "-s")
    assert {line for line in listed.splitlines() if b"soon.py" not in line} == {
        line for line in staged.splitlines() if b"soon.py" not in line
    }
    commit = repo.text("commit-tree", tree, "-m", "x")
    repo.git("update-ref", f"refs/expdb/pins/{commit}", commit)
    run(repo.top, code, folder=str(tmp_path / "code"), commit=commit)
    assert (tmp_path / "code/train.py").read_text() == "lr = 1\n"
