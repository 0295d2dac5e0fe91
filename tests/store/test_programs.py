"""What another program prints: its end, bytes that are no text, and none that hangs."""

from __future__ import annotations

import sys

from expdb.store.programs import ask


def test_what_it_prints_and_how_it_ends() -> None:
    code = "import sys; sys.stdout.buffer.write(b'a\\xff'); sys.stderr.write('b'); sys.exit(3)"
    assert ask(sys.executable, "-c", code) == (3, "a\ufffd", "b")


def test_it_has_nothing_to_read_and_the_variables_it_is_given() -> None:
    code = "import os, sys; print(repr(sys.stdin.read()), os.environ.get('HERE'))"
    answer = ask(sys.executable, "-c", code, env={"HERE": "x"})
    assert answer is not None
    assert answer.out == "'' x\n"


def test_one_that_is_not_there_or_does_not_end_gives_none() -> None:
    assert ask("no-such-program-anywhere") is None
    assert ask(sys.executable, "-c", "import time; time.sleep(60)", timeout_s=0.3) is None
