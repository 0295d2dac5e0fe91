"""The verbs of the command line as strings, so that help needs no verb's module.

Invariant: nothing is imported here; `target` is `module:attribute` of a click command.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Verb(NamedTuple):
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
        "log": Verb("expdb.cli.log:log", "runs as a list or as trees: what changed, what it did"),
        "compare": Verb(
            "expdb.cli.compare:compare", "config, code, metrics of runs, and whether one is better"
        ),
        "rank": Verb("expdb.cli.rank:rank", "order runs by the declared objective"),
        "best": Verb("expdb.cli.best:best", "name the best finished run"),
        "tail": Verb("expdb.cli.tail:tail", "the log of a run, and on until it ends"),
        "events": Verb("expdb.cli.events:events", "what rules found in runs"),
        "path": Verb("expdb.cli.path:path", "print where a run, its config or a checkpoint lies"),
        "tui": Verb("expdb_tui.command:tui", "browse runs in the terminal"),
    },
    "Name": {
        "baseline": Verb(
            "expdb.cli.baseline:baseline", "show or set the run that others are measured against"
        ),
        "tag": Verb("expdb.cli.tag:tag", "give a run or a checkpoint a name that never moves"),
        "label": Verb("expdb.cli.label:label", "put a word on runs, or list all such words"),
        "note": Verb("expdb.cli.note:note", "add a line of text to a run, or print them"),
    },
    "Go back": {
        "rollback": Verb(
            "expdb.cli.rollback:rollback",
            "bring back code, config and weights of the best baseline",
        ),
        "undo": Verb(
            "expdb.cli.undo:undo",
            "take back the newest change of code, names, labels or the trash",
        ),
        "ops": Verb("expdb.cli.ops:ops", "list what was changed, and how to take it back"),
    },
    "Run": {
        "run": Verb("expdb.cli.run:run", "train what is declared and has no run that counts"),
        "rerun": Verb("expdb.cli.rerun:rerun", "run a run's command again, with changes"),
        "resume": Verb(
            "expdb.cli.resume:resume", "take up a run that was cut off, from its last checkpoint"
        ),
        "probe": Verb("expdb.cli.probe:probe", "measure a short training, or data; record nothing"),
        "ctl": Verb("expdb.cli.ctl:ctl", "ask a live run to save, evaluate, pause, go on or stop"),
    },
    "Data": {
        "sql": Verb("expdb.cli.sql:sql", "answer one SELECT over runs, metrics and points"),
        "export": Verb("expdb.cli.export:export", "write runs and points as CSV, JSON or Parquet"),
        "import": Verb(
            "expdb.cli.import_:import_", "make runs of logs, tables and exports of other places"
        ),
    },
    "Keep": {
        "rm": Verb("expdb.cli.rm:rm", "move runs into the trash, or bring them back"),
        "gc": Verb(
            "expdb.cli.gc:gc", "set aside checkpoints beyond what runs keep; free the trash"
        ),
        "fsck": Verb("expdb.cli.fsck:fsck", "check every file of the store, and mend damage"),
        "reindex": Verb("expdb.cli.reindex:reindex", "build the index of the store again"),
        "remote": Verb(
            "expdb.cli.remote:remote", "name folders elsewhere, to push runs to and pull"
        ),
        "push": Verb("expdb.cli.push:push", "copy runs, their code and names to a remote"),
        "pull": Verb("expdb.cli.pull:pull", "bring runs, their code and names from a remote"),
    },
    "Set up": {
        "init": Verb("expdb.cli.init:init", "make an empty store"),
        "doctor": Verb("expdb.cli.doctor:doctor", "what is not well here, and what to do about it"),
        "notify": Verb(
            "expdb.cli.notify:notify", "list the channels by which people are told; test"
        ),
        "help": Verb("expdb.cli.help:help_", "list the verbs, or say what one does"),
        "completion": Verb(
            "expdb.cli.completion:completion", "print what completes names in bash, zsh or fish"
        ),
    },
}

ALIASES: Final = {"diff": "compare"}


def all_verbs() -> dict[str, Verb]:
    """Return every verb by name, in the order of help."""
    return {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}
