"""What a start knows before its run is written: config, settings, store, launch, work tree."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.conf.script import entry_script
from expdb.digest import digest
from expdb.errors import Corrupt
from expdb.git.worktree import Unavailable, WorkTree, find_worktree
from expdb.model import Objective
from expdb.monitor.rule import Rule
from expdb.monitor.rules import build_rules
from expdb.store import jobs
from expdb.store.head import Head, read_head
from expdb.store.locate import store_for_script
from expdb.store.store import Store, open_store
from expdb.track.config import Composed, plain_section, read_config
from expdb.track.folder import store_of_run_dir
from expdb.track.intervene import Intervention, asked
from expdb.track.job import Job, current_job, experiment, variant_of
from expdb.track.launch import Launch, find_launch
from expdb.track.probe import Probe, current_probe
from expdb.track.scalars import whole_seed
from expdb.track.settings import declared_objective, effective, objective_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One call of `start()`."""

    job: Job
    composed: Composed
    settings: Mapping[str, Any]
    store: Store
    worktree: WorkTree | Unavailable
    launch: Launch
    experiment: str
    variant: str
    seed: int | None
    objective: Objective | None
    rules: tuple[Rule, ...]
    labels: tuple[str, ...]
    intervention: Intervention
    probe: Probe | None
    """What this process was started for, where it is no run of its own."""

    @property
    def git_dir(self) -> Path | None:
        """The git directory of the work tree, where there is one."""
        return self.worktree.git_dir if isinstance(self.worktree, WorkTree) else None

    @property
    def work_tree(self) -> str:
        """The work tree as attempts record it."""
        return str(self.git_dir or "")

    @property
    def head(self) -> Head | None:
        """HEAD of the work tree."""
        return read_head(self.git_dir) if self.git_dir is not None else None

    @property
    def name(self) -> str:
        """The experiment with its variant."""
        return self.experiment + self.variant


def prepare(
    cfg: Any,
    *,
    name: str | None,
    store: str | Path | None,
    labels: Iterable[str],
    objective: Objective | Mapping[str, Any] | str | None,
    seed: int | None,
    given: Mapping[str, str | None],
) -> Start | None:
    """Return what a start needs, or None with `mode` off; `given` are settings said in the call.

    Raises:
        BadInput: the config, a setting or the objective makes no sense.
        Corrupt, Unsupported: the store cannot be used.
    """
    job, composed = current_job(), read_config(cfg)
    section = plain_section(composed.tree, "expdb")
    said = {key: value for key, value in given.items() if value is not None}
    settings = effective({**section, **said} if isinstance(section, dict) else section or said)
    probe = current_probe()
    if probe is not None:
        settings = probe.settings(settings)
    if settings["mode"] == "off":
        return None
    known = composed.redactor.known
    own_seed = _seed(composed, settings["seed_key"]) if seed is None else seed
    own_seed = None if own_seed is None else whole_seed(own_seed)
    own_objective = (
        objective_of(objective)
        if objective is not None
        else declared_objective(plain_section(composed.tree, "objective"))
    )
    rules = build_rules(settings["monitor"])
    config = digest(
        composed.canonical, ignore=settings["digest"]["ignore"], seed_key=settings["seed_key"]
    )
    return Start(
        job=job,
        composed=composed,
        settings=settings,
        store=_open(_store_root(store, settings, job) if probe is None else probe.store),
        worktree=find_worktree(entry_script().parent),
        launch=find_launch(f"{config}:{own_seed}"),
        experiment=known(experiment(job, name, settings["experiment_key"])),
        variant=known(_variant(job, settings)),
        seed=own_seed,
        objective=own_objective,
        rules=rules if probe is None else probe.rules(rules),
        labels=tuple(known(str(label)) for label in (*labels, *settings["labels"])),
        intervention=asked(settings),
        probe=probe,
    )


def _seed(composed: Composed, key: str) -> int | None:
    found = composed.flat.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _variant(job: Job, settings: Mapping[str, Any]) -> str:
    if not job.overrides:
        return ""
    return variant_of(
        job.overrides,
        experiment_key=settings["experiment_key"],
        seed_key=settings["seed_key"],
        ignore=settings["digest"]["ignore"],
    )


def _store_root(store: str | Path | None, settings: Mapping[str, Any], job: Job) -> Path:
    if given := os.environ.get(jobs.VARIABLE):
        return Path(given)  # a store beside the script would go with the work tree of the job
    if store is not None:
        return Path(store).expanduser().absolute()
    # Hydra's folder was made by the same rule in this job, or by the launcher that started it.
    made = store_of_run_dir(job.run_dir) if job.run_dir is not None else None
    if made is not None:
        return made
    return store_for_script(entry_script(), os.environ.get("EXPDB_STORE") or settings["store"])


def _open(root: Path) -> Store:
    store = open_store(root, create=True)
    if not store.writable:
        raise Corrupt(
            f"cannot write to the store {store.name}: {store.why_not}",
            hint="another place: python train.py ... expdb.store=DIR",
        )
    return store
