"""Our own exports: what a run is, as a JSON object that begins with `"expdb": "run"`.

Invariant: a record that is taken gives the same run again: id, config, digest, objective, pins,
evaluations. Names in it build no path.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from expdb import digest
from expdb.errors import BadInput
from expdb.importers.found import RunFacts, Skips
from expdb.importers.json_ import parsed
from expdb.importers.lines import lines
from expdb.model import Attempt, Eval
from expdb.query.export import SCHEMA_VERSION
from expdb.store import fields
from expdb.store.attempts import attempt_of
from expdb.store.fields import Wrong
from expdb.store.ids import is_id, new_id
from expdb.store.new_run import require_seed
from expdb.store.records import eval_of, event_of
from expdb.store.runs import identity_of
from expdb.store.status import STORED_STATES, Status
from expdb.text import plain

MARK: Final = "expdb"
APART: Final = frozenset([
    MARK, "schema_version", "status", "attempts", "evals", "events", "labels", "notes", "config",
    "points", "format", "needs",
])  # fmt: skip
"""What a record has beside the fields of run.json."""


def is_record(data: Mapping[str, Any]) -> bool:
    """Tell whether an object describes a run in our form."""
    return data.get(MARK) == "run"


def read_records(path: Path, skips: Skips) -> dict[str, RunFacts]:
    """Return id -> facts of the records in a JSONL file."""
    found: dict[str, RunFacts] = {}
    for line, text in lines(path, skips):
        try:
            data = parsed(text, f"{plain(path.name)} line {line}")
        except (ValueError, RecursionError):
            skips.add("a line that is no JSON", line)
            continue
        if isinstance(data, dict) and is_record(data):
            facts = facts_of(data, skips, line, where=f"{plain(path.name)} line {line}")
            remember(found, facts, plain(path.name))
    return found


def remember(found: dict[str, RunFacts], facts: RunFacts, name: str) -> None:
    """Add what a record says of its run to the others of a file called `name`.

    Raises:
        BadInput: there is one of that run already.
    """
    if str(facts.id) in found:
        raise BadInput(f"{name} describes run {facts.id} twice")
    found[str(facts.id)] = facts


def facts_of_all(records: Sequence[Mapping[str, Any]], skips: Skips) -> dict[str, RunFacts]:
    """Return id -> facts of the records of one document.

    Raises:
        BadInput: as `facts_of`, or two are of one run.
    """
    found: dict[str, RunFacts] = {}
    for at, record in enumerate(records, start=1):
        where = f"{skips.name} run {at}"
        remember(found, facts_of(record, skips, at, where=where), skips.name)
    return found


def facts_of(data: Mapping[str, Any], skips: Skips, line: int, *, where: str) -> RunFacts:
    """Return what a record says; a digest that is not that of its config is counted, and made anew.

    Raises:
        BadInput: a field is missing, or of another type.
    """
    version = data.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BadInput(
            f"{where} is an export of schema {version}; this expdb reads {SCHEMA_VERSION}",
            hint="pip install -U expdb-ml",
        )
    try:
        facts = _facts(data)
    except (Wrong, RecursionError, ValueError) as error:
        raise BadInput(f"{where} is no run of an export: `{error}`") from error
    if data.get("digest", "") not in ("", facts.identity["digest"]):
        skips.add("a config digest that is not its config's: made anew", line)
    return facts


def _facts(data: Mapping[str, Any]) -> RunFacts:
    config = fields.mapping(data, "config")
    identity = {name: value for name, value in data.items() if name not in APART}
    # The same text as digest.canonical makes: the tree is that of canonical JSON.
    identity["canonical"] = json.dumps(
        config, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    digest.flatten(identity["canonical"])  # raises here for a config that is too deep to be read
    identity["digest"] = _digest(identity)
    known = identity_of(identity)
    if not (is_id(known["id"]) and known["experiment"]):
        raise Wrong("id")
    if known["seed"] is not None:
        require_seed(known["seed"])
    return RunFacts(
        id=known["id"],
        identity=identity,
        status=_status(fields.mapping(data, "status", {})),
        attempts=_attempts(fields.items(data, "attempts", ())),
        evals=tuple(_eval(item) for item in fields.items(data, "evals", ())),
        events=tuple(
            event_of(fields.as_mapping(item, "events")) for item in fields.items(data, "events", ())
        ),
        labels=fields.texts(data, "labels", ()),
        notes=fields.texts(data, "notes", ()),
    )


def _digest(identity: Mapping[str, Any]) -> str:
    """Return the digest of the config of a record by the rules that its settings name."""
    settings = fields.mapping(identity, "settings", {})
    rules = fields.mapping(settings, "digest", {})
    return digest.digest(
        str(identity["canonical"]),
        ignore=fields.texts(rules, "ignore", ()),
        seed_key=fields.text(settings, "seed_key", "seed"),
    )


def _status(data: Mapping[str, Any]) -> Status:
    state, reason = fields.text(data, "state", "finished"), fields.text(data, "reason", "")
    if state not in STORED_STATES or state == "running":
        state, reason = "preempted", f"it was {state} when it was exported"
    return Status(
        state=state,
        reason=reason,
        last_step=fields.maybe_whole(data, "last_step"),
        max_steps=fields.maybe_whole(data, "max_steps"),
        ended_at_ms=fields.maybe_whole(data, "ended_at_ms"),
        num_dropped=fields.whole(data, "num_dropped", 0),
    )


def _attempts(items: Iterable[Any]) -> tuple[Attempt, ...]:
    found = {}
    for item in items:
        data = fields.as_mapping(item, "attempts")
        number = fields.whole(data, "number")
        if not 0 < number <= 1_000_000:
            raise Wrong("attempts")
        found[number] = attempt_of(number, data)
    return tuple(found[number] for number in sorted(found))


def _eval(item: Any) -> Eval:
    data = fields.as_mapping(item, "evals")
    if not is_id(fields.text(data, "id")):
        data = {**data, "id": new_id()}  # it names a file
    return eval_of(data)
