"""Writes what a file holds as runs of the store.

Invariant: a run appears whole or not at all; the same file read in the same way gives the same ids,
so a second import finds the runs of the first and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from expdb.digest import canonical, digest
from expdb.errors import BadInput, Corrupt, NotFound, Refused
from expdb.importers import files
from expdb.importers.config import split_name, without_secrets
from expdb.importers.found import Found, RunFacts, Source, Step
from expdb.importers.results import ImportedFile, ImportedRun
from expdb.importers.run_id import run_id, sha256_of
from expdb.importers.wanted import Wanted
from expdb.model import Attempt, Pin
from expdb.store.ids import is_id
from expdb.store.layout import RunLayout
from expdb.store.new_run import NewRun, RunWriter
from expdb.store.runs import find_run_dir, read_identity
from expdb.store.status import Status
from expdb.store.store import Store, reason
from expdb.text import plain

WAITING_POINTS: Final = 4_000_000
"""So many points of all runs of a file wait in memory before they are sealed."""


def import_file(store: Store, path: Path, wanted: Wanted) -> ImportedFile:
    """Read a file and write its runs.

    Raises:
        BadInput: the file cannot be read as asked.
        Refused: the store has another run of the same id.
        Corrupt: the store cannot be written.
    """
    source = Source(files.existing(path), wanted.reading)
    try:
        format, sha256 = files.format_of(source), sha256_of(path)
        found = files.find(source, format)
    except OSError as error:
        raise BadInput(f"{plain(path.name)} cannot be read: {reason(error)}") from error
    work = _Import(store, source, wanted, found, format, sha256)
    try:
        runs = work.run()
    except OSError as error:
        raise Corrupt(f"cannot write to the store {store.name}: {reason(error)}") from error
    finally:
        work.abandon()
    return ImportedFile(
        name=path.name,
        sha256=sha256,
        format=format,
        pattern=found.pattern,
        runs=runs,
        skipped=found.skips.all(),
    )


@dataclass(slots=True)
class _Run:
    """One run that is being written, or that is there already."""

    id: str
    experiment: str
    seed: int | None
    facts: RunFacts
    writer: RunWriter | None
    unused: tuple[str, ...] = ()
    keys: set[str] = field(default_factory=set)
    origins: dict[str, str] = field(default_factory=dict)
    """Name of a metric -> its name in the file; filled only where some have another one."""
    first_step: int | None = None
    last_step: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None

    def result(self) -> ImportedRun:
        """Return what became of it."""
        return ImportedRun(
            id=self.id,
            experiment=self.experiment,
            seed=self.seed,
            is_new=self.writer is not None,
            unused=self.unused,
            num_points=self.writer.num_points if self.writer else 0,
            num_keys=len(self.keys),
            first_step=self.first_step,
            last_step=self.last_step,
        )


class _Import:
    """The import of one file."""

    def __init__(
        self,
        store: Store,
        source: Source,
        wanted: Wanted,
        found: Found,
        format: str,
        sha256: str,
    ) -> None:
        self._store, self._source, self._wanted, self._found = store, source, wanted, found
        self._format, self._sha256 = format, sha256
        self._runs: dict[str, _Run] = {}
        self._mtime_ms = source.path.stat().st_mtime_ns // 1_000_000

    def run(self) -> tuple[ImportedRun, ...]:
        """Read the file and write its runs."""
        alone = self._id("", RunFacts())
        if self._is_there(alone):
            return (self._begin("").result(),)
        waiting = 0
        for name, step in self._found.steps:
            run = self._runs.get(name) or self._begin(name)
            if run.writer is None:
                continue
            _add(run, run.writer, step, self._renamed(run, step.values), self._mtime_ms)
            waiting += len(step.values)
            if waiting >= WAITING_POINTS:
                for other in self._runs.values():
                    if other.writer is not None:
                        other.writer.seal()
                waiting = 0
        for name in self._found.facts:  # runs without a point, too
            if name and name not in self._runs:
                self._begin(name)
        if not self._runs:
            raise BadInput(
                f"{plain(self._source.path.name)} holds no value that can be taken",
                details=tuple(
                    f"{item.count} x {item.reason} (first: line {item.first_line})"
                    for item in self._found.skips.all()[:5]
                ),
            )
        for run in self._runs.values():
            if run.writer is not None:
                run.writer.finish(self._new_run(run))
        return tuple(run.result() for run in self._runs.values())

    def abandon(self) -> None:
        """Remove what was not finished."""
        for run in self._runs.values():
            if run.writer is not None:
                run.writer.abandon()

    def _id(self, name: str, facts: RunFacts) -> str:
        if facts.id is not None:
            return facts.id
        if is_id(name):
            return name
        reading = self._source.reading
        return run_id(self._sha256, self._format, reading, self._found.pattern, name)

    def _is_there(self, run: str) -> bool:
        try:
            find_run_dir(self._store.root, run)
        except NotFound:
            return False
        return True

    def _begin(self, name: str) -> _Run:
        wanted, facts = self._wanted, self._found.facts.get(name, RunFacts())
        if facts.identity and wanted.says_what_it_is:
            raise BadInput(
                f"{plain(self._source.path.name)} is an export that says what its runs are",
                hint="import it without --exp --seed --config --objective",
            )
        id = self._id(name, facts)
        said = files.name_of(self._source.path, self._format)
        experiment, seed = split_name(name or said)
        if name:
            experiment = split_name(said)[0]
        experiment = wanted.experiment or experiment
        seed = seed if wanted.seed is None else wanted.seed
        if facts.identity:
            experiment, seed = str(facts.identity["experiment"]), facts.identity.get("seed")
        there, unused = self._is_there(id), tuple[str, ...]()
        if there:
            identity = read_identity(RunLayout(find_run_dir(self._store.root, id)))
            _require_same(id, identity, facts)
            unused = self._unused(identity, experiment, seed, facts)
            experiment, seed = str(identity["experiment"]), identity.get("seed")
        writer = None if there else RunWriter(self._store, id, experiment)
        made = self._runs[name] = _Run(id, experiment, seed, facts, writer, unused)
        return made

    def _unused(
        self, there: Mapping[str, Any], experiment: str, seed: int | None, facts: RunFacts
    ) -> tuple[str, ...]:
        """Return the options by which the run would be another one than the store has."""
        wanted, names = self._wanted, dict(self._wanted.names)
        objective = None if wanted.objective is None else asdict(wanted.objective)
        found = {
            "--exp": bool(wanted.experiment) and experiment != there["experiment"],
            "--seed": wanted.seed is not None and seed != there.get("seed"),
            "--config": bool(wanted.config) and self._config(seed, facts) != there.get("canonical"),
            "--objective": objective is not None and objective != there.get("objective"),
            "--rename": bool(names) and names != (there.get("imported") or {}).get("names"),
        }
        return tuple(name for name, differs in found.items() if differs)

    def _renamed(self, run: _Run, values: Mapping[str, float]) -> Mapping[str, float]:
        """Return the values of a step under the names that a person wants.

        Raises:
            BadInput: two metrics of the file would have one name.
        """
        names = self._wanted.names
        if not names:
            return values
        out: dict[str, float] = {}
        for old, value in values.items():
            new = names.get(old, old)
            other = run.origins.setdefault(new, old)
            if other != old:
                raise BadInput(
                    f"{plain(self._source.path.name)} has {plain(other)} and {plain(old)}, and both"
                    f" would be called {plain(new)}",
                    hint="take another name: --rename OLD=NEW",
                )
            out[new] = value
        return out

    def _new_run(self, run: _Run) -> NewRun:
        facts = run.facts
        imported = {
            "source": self._source.path.name,
            "sha256": self._sha256,
            "format": self._format,
            **({"pattern": self._found.pattern} if self._found.pattern else {}),
            **({"names": dict(self._wanted.names)} if self._wanted.names else {}),
        }
        status = facts.status or Status(
            state="finished",
            last_step=run.last_step,
            max_steps=facts.max_steps,
            ended_at_ms=run.last_ms,
        )
        attempts = facts.attempts or (
            Attempt(
                number=1,
                pin=Pin(reproducible=False, reasons=(f"imported from {imported['source']}",)),
                started_at_ms=run.first_ms or self._mtime_ms,
            ),
        )
        identity = facts.identity or self._identity(run)
        return NewRun(
            identity={**identity, "imported": imported},
            status=replace(status, attempt=max(item.number for item in attempts)),
            attempts=attempts,
            evals=facts.evals,
            events=facts.events,
            labels=facts.labels,
            notes=facts.notes,
        )

    def _config(self, seed: int | None, facts: RunFacts) -> str:
        """Return the canonical config of a run whose file does not say what it is."""
        config = {**facts.config, **self._wanted.config}
        if seed is not None:
            config["seed"] = seed
        return canonical(without_secrets(config))

    def _identity(self, run: _Run) -> dict[str, Any]:
        """Return run.json of a run whose file does not say what it is."""
        text = self._config(run.seed, run.facts)
        objective = self._wanted.objective
        return {
            "id": run.id,
            "experiment": run.experiment,
            "variant": "",
            "seed": run.seed,
            "created_at_ms": run.first_ms or self._mtime_ms,
            "objective": None if objective is None else asdict(objective),
            "parent": None,
            "fork": None,
            "command": [],
            "digest": digest(text, seed_key="seed"),
            "settings": {"digest": {"ignore": []}, "seed_key": "seed"},
            "canonical": text,
        }


def _require_same(run: str, there: Mapping[str, Any], facts: RunFacts) -> None:
    """Refuse to pass a run over that is another one than the store has under its id."""
    for name in ("digest", "created_at_ms", "experiment", "seed") if facts.identity else ():
        if there.get(name) != facts.identity.get(name):
            raise Refused(
                f"the store has another run {run}: its {name} differs from the file's",
                hint=f"what it is: expdb show {run}",
            )


def _add(
    run: _Run, writer: RunWriter, step: Step, values: Mapping[str, float], mtime_ms: int
) -> None:
    time_ms = step.time_ms
    writer.add(
        values,
        step=step.step,
        time_ms=mtime_ms if time_ms is None else time_ms,
        attempt=step.attempt,
        rank=step.rank,
    )
    run.keys.update(values)
    run.first_step = step.step if run.first_step is None else min(run.first_step, step.step)
    run.last_step = step.step if run.last_step is None else max(run.last_step, step.step)
    if time_ms is not None:
        run.first_ms = time_ms if run.first_ms is None else min(run.first_ms, time_ms)
        run.last_ms = time_ms if run.last_ms is None else max(run.last_ms, time_ms)
