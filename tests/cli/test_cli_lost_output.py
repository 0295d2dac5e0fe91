"""Output that cannot be written: one plain line and a code, no fault; a closed pipe is silent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from expdb.store.store import open_store
from tests.query.made import make_run, write_run

pytestmark = pytest.mark.slow

LOST = "error: the output cannot be written: no space left\n"


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    store = open_store(tmp_path / "runs", create=True)
    write_run(store, make_run("k3f9x2m7qd", value=1.8))
    return [sys.executable, "-m", "expdb.cli.main", "--store", str(store.root)]


def run(
    words: Sequence[str], *, out: str = os.devnull, err: str = "", buffered: bool = True
) -> tuple[int, str]:
    env = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    with Path(out).open("w") as stdout, Path(err or os.devnull).open("w") as stderr:
        done = subprocess.run(
            words, stdout=stdout, stderr=stderr if err else subprocess.PIPE, env=env, check=False
        )
    return done.returncode, "" if err else done.stderr.decode()


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    "args", [("ls",), ("sql", "select range from range(99999)", "--csv", "-n", "99999"), ("-h",)]
)
def test_a_full_disk_is_one_line(words: list[str], args: Sequence[str], buffered: bool) -> None:
    assert run([*words, *args], out="/dev/full", buffered=buffered) == (2, LOST)


def test_a_full_disk_changes_no_other_code(words: list[str]) -> None:
    code, said = run([*words, "show", "nope"], out="/dev/full")
    assert (code, said.count("error:")) == (3, 1)
    assert run([*words, "show", "nope"], out="/dev/full", err="/dev/full") == (3, "")
    assert run([*words, "ls"], err="/dev/full") == (0, "")


def test_a_reader_that_has_gone_is_silent(words: list[str]) -> None:
    job = subprocess.Popen(
        [*words, "sql", "select range from range(99999)", "--csv", "-n", "99999"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert job.stdout is not None
    assert job.stderr is not None
    assert job.stdout.readline() == b"range\n"
    job.stdout.close()
    assert job.stderr.read() == b""
    assert job.wait() == 0
