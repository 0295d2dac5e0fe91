"""The verbs of the command line as strings, so that help needs no verb's module.

Invariant: nothing is imported here; `target` is `module:attribute` of a click command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: where its command is, and its line in `expdb --help`."""

    target: str
    help: str


GROUPS: Final[dict[str, dict[str, Verb]]] = {
    "Look": {
        "status": Verb(
            "expdb.cli.status:status", "the work tree against HEAD, and every experiment's state"
        ),
        "ls": Verb("expdb.cli.ls:ls", "list runs, newest first"),
        "show": Verb("expdb.cli.show:show", "everything about one run"),
        "compare": Verb(
            "expdb.cli.compare:compare", "config, code, metrics of runs, and whether one is better"
        ),
        "rank": Verb("expdb.cli.rank:rank", "order runs by the declared objective"),
        "path": Verb("expdb.cli.path:path", "print where a run, its config or a checkpoint lies"),
        "tui": Verb("expdb_tui.command:tui", "browse runs in the terminal"),
    },
    "Name": {
        "baseline": Verb(
            "expdb.cli.baseline:baseline", "show or set the run that others are measured against"
        ),
    },
    "Go back": {
        "rollback": Verb(
            "expdb.cli.rollback:rollback",
            "bring back code, config and weights of the best baseline",
        ),
        "undo": Verb(
            "expdb.cli.undo:undo",
            "take back the newest change of this work tree or of the baseline",
        ),
        "ops": Verb("expdb.cli.ops:ops", "list what was changed, and how to take it back"),
    },
    "Run": {
        "resume": Verb(
            "expdb.cli.resume:resume", "take up a run that was cut off, from its last checkpoint"
        ),
    },
    "Keep": {
        "reindex": Verb("expdb.cli.reindex:reindex", "build the index of the store again"),
    },
}

ALIASES: Final = {"diff": "compare"}


def all_verbs() -> dict[str, Verb]:
    """Return every verb by name, in the order of help."""
    return {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}
