"""The first files of a run: its folder, its identity, its config.

Invariant: `run.json` is written once, after the pin and the config and before `status.json`; a
folder without it is no run yet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from expdb.digest import digest, leaves
from expdb.errors import Corrupt
from expdb.model import FORMAT, NEEDS, Attempt, Objective, Pin, RunAt
from expdb.store import attempts as attempt_files
from expdb.store.files import write_bytes, write_json
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.marks import add_mark
from expdb.store.status import Status, write_status
from expdb.store.store import Store, reason
from expdb.track.config import Composed, yaml_text
from expdb.track.environment import describe
from expdb.track.folder import remove_empty, store_of_run_dir
from expdb.track.intervene import NONE, Intervention
from expdb.track.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What makes a run: written to run.json."""

    experiment: str
    variant: str
    seed: int | None
    objective: Objective | None
    parent: RunAt | None
    fork: RunAt | None
    settings: Mapping[str, Any]
    labels: tuple[str, ...] = ()
    intervention: Intervention = NONE


KEPT_SETTINGS = (
    "digest", "code", "keep", "require", "gates", "noise", "notify", "seed_key",
    "experiment_key",
)  # fmt: skip


def take_folder(store: Store, job: Job, experiment: str) -> Path:
    """Return a fresh run folder: the one that Hydra made for this job, else a new one."""
    made = job.run_dir
    folder = store.layout.run_dir(experiment, new_id())
    if (
        made is not None
        and made.parent == folder.parent
        and store_of_run_dir(made)
        and made.is_dir()
    ):
        layout = RunLayout(made)
        if not layout.run_json.exists() and not layout.attempts.exists():
            return made
    folder.mkdir(parents=True)
    return folder


def leave_folder(store: Store, job: Job, *, instead: Path) -> None:
    """Remove the empty folder that Hydra made for a job whose run is in another one, `instead`."""
    made = job.run_dir
    if made is None or made == instead or store_of_run_dir(made) != store.root:
        return
    if made.is_dir() and Path.cwd().samefile(made):  # hydra.job.chdir
        os.chdir(instead)
    remove_empty(made)


def begin_run(
    store: Store,
    job: Job,
    identity: Identity,
    composed: Composed,
    pin: Pin,
    work_tree: str,
    *,
    world_size: int = 1,
) -> tuple[RunLayout, Attempt]:
    """Write a new run up to its first status.

    Raises:
        Corrupt: the store cannot be written.
    """
    try:
        layout = RunLayout(take_folder(store, job, identity.experiment))
        number = attempt_files.claim(layout)
        attempt = Attempt(
            number=number,
            pin=pin,
            started_at_ms=time.time_ns() // 1_000_000,
            environment=describe(store.layout, world_size),
            work_tree=work_tree,
            intervention=identity.intervention.to_plain(),
        )
        attempt_files.write_pin(layout, attempt)
        _write_config(layout, job, composed)
        for label in identity.labels:
            add_mark(layout, "label", label)
        write_json(layout.run_json, _identity_json(layout.id, job, identity, composed))
        write_status(layout, Status(attempt=number))
    except OSError as error:
        raise Corrupt(
            f"cannot write to the store {store.name}: {reason(error)}",
            hint="another place: python train.py ... expdb.store=DIR",
        ) from error
    return layout, attempt


def _write_config(layout: RunLayout, job: Job, composed: Composed) -> None:
    # Markers as canonical JSON has them: a missing value is not the text `???`.
    write_json(layout.config_json, leaves(composed.canonical), durable=False)
    write_bytes(layout.config_yaml, _utf8(composed.yaml), durable=False)
    write_bytes(layout.unresolved_yaml, _utf8(composed.unresolved_yaml), durable=False)
    said = composed.redactor.command(job.overrides)
    text = yaml_text(said)
    write_bytes(layout.overrides_yaml, _utf8(text), durable=False)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _identity_json(run: str, job: Job, identity: Identity, composed: Composed) -> dict[str, Any]:
    settings = identity.settings
    redact, known = composed.redactor.command, composed.redactor.known
    return {
        "format": FORMAT,
        "needs": NEEDS,
        "id": run,
        "experiment": identity.experiment,
        "variant": identity.variant,
        "seed": identity.seed,
        "study": known(settings["study"]) if settings["study"] else None,
        "created_at_ms": time.time_ns() // 1_000_000,
        "objective": asdict(identity.objective) if identity.objective is not None else None,
        "parent": asdict(identity.parent) if identity.parent is not None else None,
        "fork": asdict(identity.fork) if identity.fork is not None else None,
        "command": redact(job.command),
        "overrides": redact(job.overrides),
        "config_name": job.config_name,
        "digest": digest(
            composed.canonical,
            ignore=settings["digest"]["ignore"],
            seed_key=settings["seed_key"],
        ),
        "settings": {name: settings[name] for name in KEPT_SETTINGS},
        "canonical": composed.canonical,
    }
