"""How what exists stands to what is declared: up to date, stale and why, missing, running, failed.

A run counts for a declared one if it is of the same experiment, variant and seed. It is up to date
if its config is the declared one under today's rules, and if no file of the repository that it used
is another one now.

Invariant: a run that is up to date is found however many stale ones are newer, and one with every
metric that it requires before one without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from expdb import digest
from expdb.git.objects import hash_files
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.query.declared_results import Declaration, Declared, DeclaredRun
from expdb.query.status_results import Reason
from expdb.store import jobs

LIVE: Final = ("running", "paused", "pending")
PENDING: Final = "pending"
CUT_OFF: Final = ("failed", "crashed", "lost", "preempted")
FINISHED: Final = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One declared run, or a file that declares none."""

    experiment: str
    variant: str = ""
    seed: int | None = None
    state: str
    """`up to date`, `stale`, `missing`, `invalid`, `pending` of what `run` has queued, or the state
    of its run.
    """
    run: str | None = None
    reasons: tuple[Reason, ...] = ()
    fault: str = ""
    overrides: tuple[str, ...] = ()


class _Known(NamedTuple):
    id: str
    state: str
    digest: str
    does_count: bool
    """Whether it has every metric that it requires."""


_Key = tuple[str, str, int | None]


def standings(reader: Reader, declared: Declaration, worktree: WorkTree | None) -> list[Standing]:
    """Return every declared run and file, in order of names, as declared.

    Raises:
        Corrupt: the config of a run that has to be compared is damaged.
    """
    runs = _runs_of(reader, [one.name for one in declared.experiments])
    edited = _edited(reader, worktree, _finished(declared, runs))
    queued = jobs.pending(reader.store.layout)
    out = []
    for one in declared.experiments:
        if one.fault:
            out.append(Standing(experiment=one.name, state="invalid", fault=one.fault))
        for wanted in one.runs:
            known = runs.get((one.name, wanted.variant, wanted.seed), [])
            is_queued = bool(queued) and (
                jobs.file_name((one.name + wanted.variant, wanted.seed)) in queued
            )
            out.append(_standing(reader, one, wanted, known, edited, is_queued=is_queued))
    return out


def _runs_of(reader: Reader, names: Sequence[str]) -> Mapping[_Key, list[_Known]]:
    """Return the runs of each experiment, variant and seed, the newest first."""
    sql = """
        SELECT experiment, variant, seed, id, state, digest, len(lacks) = 0 FROM runs
        WHERE experiment IN (SELECT unnest(?)) ORDER BY created_at_ms DESC, id DESC
    """
    found: dict[_Key, list[_Known]] = defaultdict(list)
    for experiment, variant, seed, *known in reader.rows(sql, [list(names)]):
        found[experiment, variant, seed].append(_Known(*known))
    return found


def _finished(declared: Declaration, runs: Mapping[_Key, list[_Known]]) -> list[str]:
    return [
        run.id
        for one in declared.experiments
        for wanted in one.runs
        for run in runs.get((one.name, wanted.variant, wanted.seed), [])
        if run.state == FINISHED
    ]


def _edited(
    reader: Reader, worktree: WorkTree | None, runs: Sequence[str]
) -> Mapping[str, tuple[str, ...]]:
    """Return run -> the files that its last attempt used and that are others now, by path."""
    if worktree is None or not runs:
        return {}
    used = """
        WITH used AS (
            SELECT u.run, u.path, u.blob FROM used_files u
            WHERE u.run IN (SELECT unnest(?))
            QUALIFY u.attempt = max(u.attempt) OVER (PARTITION BY u.run)
        )
    """
    paths = [path for (path,) in reader.rows(f"{used} SELECT DISTINCT path FROM used", [runs])]
    now = hash_files(worktree, paths)
    sql = f"""{used}
        SELECT used.run, list(used.path ORDER BY used.path) FROM used
        JOIN (SELECT unnest(?) AS path, unnest(?) AS blob) present USING (path)
        WHERE present.blob IS DISTINCT FROM used.blob GROUP BY used.run
    """
    rows = reader.rows(sql, [runs, list(now), list(now.values())])
    return {run: tuple(names) for run, names in rows}


def _standing(
    reader: Reader,
    one: Declared,
    wanted: DeclaredRun,
    known: Sequence[_Known],
    edited: Mapping[str, Sequence[str]],
    *,
    is_queued: bool,
) -> Standing:
    def made(state: str, run: _Known | None = None, reasons: Iterable[Reason] = ()) -> Standing:
        return Standing(
            experiment=one.name,
            variant=wanted.variant,
            seed=wanted.seed,
            state=state,
            run=None if run is None else run.id,
            reasons=tuple(reasons),
            overrides=wanted.overrides,
        )

    finished = [run for run in known if run.state == FINISHED]
    for run in known:
        if run.state in LIVE and _same_config(reader, one, wanted, run):
            return made(run.state, run)
    fitting = [run for run in finished if run.digest == wanted.digest and not edited.get(run.id)]
    if fitting:
        return made("up to date", next((run for run in fitting if run.does_count), fitting[0]))
    if is_queued:
        return made(PENDING)
    newest = known[0] if known else None
    if newest and newest.state in CUT_OFF and _same_config(reader, one, wanted, newest):
        return made(newest.state, newest)
    if not finished:
        return made("missing")
    reasons = tuple(_reasons(reader, one, wanted, finished[0], edited))
    return made("stale" if reasons else "up to date", finished[0], reasons)


def _same_config(reader: Reader, one: Declared, wanted: DeclaredRun, run: _Known) -> bool:
    return run.digest == wanted.digest or not _differing(reader, one, wanted, run)


def _differing(
    reader: Reader, one: Declared, wanted: DeclaredRun, run: _Known
) -> dict[str, tuple[object, object]]:
    """Return key -> (value of the run, value declared), under today's rules."""
    if run.digest == wanted.digest:
        return {}
    return digest.differing(
        reader.run(run.id).canonical, wanted.canonical, ignore=one.ignore, seed_key=one.seed_key
    )


def _reasons(
    reader: Reader,
    one: Declared,
    wanted: DeclaredRun,
    run: _Known,
    edited: Mapping[str, Sequence[str]],
) -> Iterator[Reason]:
    """Yield why a finished run is not the declared one: variables, other keys, files."""
    keys = _differing(reader, one, wanted, run)
    for key in sorted(keys, key=lambda key: (key not in one.read_from, key)):
        old, new = keys[key]
        variable = one.read_from.get(key)
        if variable is None:
            yield Reason(kind="config", name=key, old=old, new=new)
        else:
            yield Reason(kind="environment", name=variable, key=key, old=old, new=new)
    for path in edited.get(run.id, ()):
        yield Reason(kind="file", name=path)
