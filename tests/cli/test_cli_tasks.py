"""Every command of docs/tasks.md, typed as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TEXT = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
COMMANDS = [one for one in re.findall(r"`([^`]+)`", TEXT) if one.startswith("expdb ")]
ASKS = {
    "expdb rollback": 4,  # it asks, and nobody is there
    "expdb ctl exp01 save": 4, "expdb ctl exp01 stop": 4,  # the runs have ended
    "expdb ctl exp01 pause": 4, "expdb ctl exp01 go": 4,
    "expdb resume exp01": 4,
    "expdb notify test": 3, "expdb events --watch --notify": 3,  # no channel is declared
    "expdb probe loader exp01": 4, "expdb probe lr exp01": 4,  # the script has no expdb.Loop
    "expdb rm --restore": 3,  # nothing is in the trash
    "expdb run -j 2": 3, "expdb run exp02_cosine --stale --dry-run": 3,  # there is no config
}  # fmt: skip
"""What ends otherwise in the laboratory of these tests."""


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 30
    assert set(ASKS) <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_tasks_works(mine, own_lab, command: str) -> None:
    if command.startswith("expdb rerun") or command == "expdb import train.log":
        pytest.skip("it becomes a training, or reads a file of one's own")
    if command == "expdb undo":
        mine("tag", "paper", "exp01")
    done = mine(*shlex.split(command)[1:])
    if command.startswith("expdb doctor"):
        assert done.code in (0, 1, 3)  # of this machine, and of a config that is not here
        return
    assert done.code == ASKS.get(command, 0), done.err
    assert (done.out or done.err).strip()
    assert "usage:" not in done.err
