"""What `expdb run` is about to do: a job for each declared run that has none that counts.

Invariant: nothing is written and nothing is started.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from expdb import digest
from expdb.actions.run.costs import Costs, costs
from expdb.actions.run.results import Job, RunPlan, Which
from expdb.errors import BadInput, NotFound, Refused
from expdb.git.worktree import Unavailable, find_worktree
from expdb.index.reader import Reader
from expdb.query.composed_files import Unreadable, read_config_file
from expdb.query.conf import choice
from expdb.query.declared_results import Declaration, Declared, DeclaredRun
from expdb.query.entry import NAME_IT, Entry
from expdb.query.standing import Standing, standings
from expdb.store.runword import parse
from expdb.text import plain
from expdb.track.settings import DEFAULTS

FOR: Mapping[str, Which] = {
    "missing": "missing",
    "crashed": "missing",
    "preempted": "missing",
    "stale": "stale",
    "failed": "failed",
    "up to date": "all",
}
"""State -> what is asked for by who wants a job for it. What was cut off is gone on with; of a lost
run nobody here knows whether it is dead."""
DEFAULT: tuple[Which, ...] = ("missing",)
CUT_OFF = ("crashed", "preempted")
CALLBACK = "hydra/callbacks="
SLURM = "expdb.slurm."


def plan_run(
    reader: Reader,
    declared: Declaration,
    *,
    places: Sequence[Path],
    words: Sequence[str] = (),
    which: Collection[Which] = DEFAULT,
    most: int | None = None,
    slurm: Mapping[str, Any] | None = None,
) -> RunPlan:
    """Return the jobs that would train what is declared.

    Args:
        reader: the index.
        declared: what is declared.
        places: the folders in which the script is looked for, in order.
        words: experiments, `exp01` or `exp01:s2`; none: all.
        which: which of them get a job, by how they stand.
        most: so many jobs at most.
        slurm: what to ask of SLURM besides what `expdb.slurm` of each job says; None: not asked.

    Raises:
        NotFound: a word names nothing that is declared.
        BadInput: a word is no such name.
        Refused: no script is known that trains this config.
        Corrupt: the config of a run that has to be compared is damaged.
    """
    chosen = _chosen(declared, words)
    folder = _folder(declared.entry, places)
    found = find_worktree(declared.entry.folder)
    worktree = None if isinstance(found, Unavailable) else found
    stand = standings(reader, chosen, worktree)
    wanted = {
        (one.name, run.variant, run.seed): run for one in chosen.experiments for run in one.runs
    }
    asked = {*which, *(FOR.values() if "all" in which else ())}
    needed = [one for one in stand if FOR.get(one.state) in asked]
    maker = _Maker(
        reader=reader,
        start=_start(reader, declared),
        costs=costs(reader, sorted({one.experiment for one in needed})),
        known=_known(reader),
        slurm=slurm,
    )
    jobs = [
        maker.job(declared, one, wanted[one.experiment, one.variant, one.seed]) for one in needed
    ]
    done = Counter(one.state for one in stand if FOR.get(one.state) not in asked)
    invalid = tuple((one.experiment, one.fault) for one in stand if one.fault)
    # What is pinned once for all is pinned as the first of them declares it.
    config = digest.flatten(wanted[_place(needed[0])].canonical) if needed else {}
    return RunPlan(
        jobs=tuple(jobs[:most]),
        num_declared=len(wanted),
        left_out=done,
        invalid=invalid,
        more=max(0, len(jobs) - len(jobs[:most])),
        folder=folder,
        code=_code(config),
        dirty="refuse" if config.get("expdb.dirty") == "refuse" else "snapshot",
    )


def _place(one: Standing) -> tuple[str, str, int | None]:
    return one.experiment, one.variant, one.seed


def _chosen(declared: Declaration, words: Sequence[str]) -> Declaration:
    """Return what is declared, as far as words name it.

    Raises:
        NotFound, BadInput: see `plan_run`.
    """
    if not words:
        return declared
    taken: dict[str, dict[DeclaredRun, None]] = defaultdict(dict)
    for word in words:
        one, runs = _named(declared, word)
        taken[one.name].update(dict.fromkeys(runs))
    return replace(
        declared,
        experiments=tuple(
            replace(one, runs=tuple(run for run in one.runs if run in taken[one.name]))
            for one in declared.experiments
            if one.name in taken
        ),
    )


def _named(declared: Declaration, word: str) -> tuple[Declared, list[DeclaredRun]]:
    expr = parse(word)
    seeds = [int(one[1:]) for one in expr.selectors if one[:1] == "s" and one != "s"]
    if expr.step is not None or expr.metric or len(seeds) < len(expr.selectors) or len(seeds) > 1:
        raise BadInput(f"{plain(word)} names no declared run", hint="for instance: exp01, exp01:s2")
    for one in declared.experiments:
        runs = [run for run in one.runs if expr.word in (one.name, one.name + run.variant)]
        if not runs and expr.word != one.name:
            continue
        found = [run for run in runs if not seeds or run.seed == seeds[0]]
        if not found and not one.fault:
            there = ", ".join(sorted({f"s{run.seed}" for run in runs if run.seed is not None}))
            raise NotFound(
                f"{plain(expr.word)} declares no seed {seeds[0]}",
                hint=f"it declares {there}" if there else "it declares no seeds",
            )
        return one, found
    known = [one.name for one in declared.experiments]
    near = difflib.get_close_matches(expr.word[:200], known, n=2, cutoff=0.5)
    hint = f"nearest: {', '.join(map(plain, near))}" if near else "what is declared: expdb status"
    raise NotFound(f"no experiment is declared as {plain(expr.word)}", hint=hint)


def _folder(entry: Entry, places: Sequence[Path]) -> Path:
    """Return the folder that the script of an entry is started in.

    Raises:
        Refused: no script is known, or it is not there.
    """
    for place in places:
        if entry.script and (place / entry.script).is_file():
            return place
    raise Refused(entry.fault or f"{plain(entry.script)} is not there", hint=NAME_IT)


def _start(reader: Reader, declared: Declaration) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """Return the beginning of every command, whether the base has the group of experiments, and
    the end of every command.
    """
    entry = declared.entry
    start = ("python", entry.script, *(("--config-name", entry.name) if entry.is_asked else ()))
    try:
        keys = [key for key, _ in read_config_file(entry.path).defaults]
    except Unreadable:
        keys = []
    names = {key.removeprefix("optional ").removeprefix("override ").lstrip("/") for key in keys}
    newest = reader.rows("SELECT id FROM runs ORDER BY created_at_ms DESC, id DESC LIMIT 1")
    command = reader.run(newest[0][0]).command if newest else ()
    # A script that expdb is not in has a run by this alone.
    own = tuple(word for word in command if word.lstrip("+").startswith(CALLBACK))
    return start, declared.group in names, own


def _known(reader: Reader) -> Mapping[tuple[str, str, int | None], list[str]]:
    found: dict[tuple[str, str, int | None], list[str]] = defaultdict(list)
    for experiment, variant, seed, run in reader.rows(
        "SELECT experiment, variant, seed, id FROM runs"
    ):
        found[experiment, variant, seed].append(run)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """Makes the job of a declared run."""

    reader: Reader
    start: tuple[tuple[str, ...], bool, tuple[str, ...]]
    costs: Costs
    known: Mapping[tuple[str, str, int | None], list[str]]
    slurm: Mapping[str, Any] | None

    def job(self, declared: Declaration, one: Standing, wanted: DeclaredRun) -> Job:
        """Return the job, which goes on with a run that was cut off where there is a checkpoint."""
        start, is_in_base, end = self.start
        chosen = choice(declared.group, one.experiment, is_in_base=is_in_base)
        estimate = self.costs.of(one.experiment, wanted)
        resumes = step = None
        own: tuple[str, ...] = ()
        if one.state in CUT_OFF and one.run is not None:
            run = self.reader.run(one.run)
            if run.usable:
                resumes, step = run.id, run.usable[-1].step
                own = (f"expdb.resume={run.id}",)
                if estimate is not None and run.max_steps:
                    estimate *= max(0.0, 1 - step / run.max_steps)
        return Job(
            experiment=one.experiment,
            variant=one.variant,
            seed=one.seed,
            state=one.state,
            reasons=one.reasons,
            argv=(*start, chosen, *wanted.overrides, *end, *own),
            resumes=resumes,
            step=step,
            estimate_s=estimate,
            digest=wanted.digest,
            known=frozenset(self.known.get(_place(one), ())),
            slurm={} if self.slurm is None else {**_slurm(wanted), **self.slurm},
        )


def _slurm(wanted: DeclaredRun) -> dict[str, Any]:
    """Return the section `expdb.slurm` of a config."""
    found: dict[str, Any] = {}
    for key, value in digest.flatten(wanted.canonical).items():
        if key.startswith(SLURM) and value != {}:
            name, _, inner = key.removeprefix(SLURM).partition(".")
            if inner:
                found.setdefault(name, {})[inner] = value
            else:
                found[name] = value
    return found


def _code(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a pin leaves out, as a flat config says."""
    code: dict[str, Any] = dict(DEFAULTS["code"])
    for name in code:
        said = config.get(f"expdb.code.{name}")
        if isinstance(said, list) and all(isinstance(item, str) for item in said):
            code[name] = said
    return code
