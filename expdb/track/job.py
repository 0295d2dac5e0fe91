"""The job that calls `start()`: its Hydra overrides, its folder, its command, as far as there is Hydra.

Invariant: nothing here needs Hydra; without a running Hydra job the experiment is the caller's `name`, else `adhoc`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.digest import ignored
from expdb.track.folder import entry_script, experiment_of


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of the running job."""

    overrides: tuple[str, ...] = ()
    """Task overrides as given, of this job of a sweep."""
    run_dir: Path | None = None
    """The folder that Hydra made for this job."""
    config_name: str | None = None
    choices: tuple[tuple[str, str], ...] = ()
    """Config group -> chosen option, `exp` and Hydra's own left out."""
    is_sweep: bool = False

    @property
    def command(self) -> tuple[str, ...]:
        """The command that starts this job alone: `python SCRIPT OVERRIDES`."""
        script = os.path.relpath(entry_script())
        return ("python", script, *(self.overrides if self.config_name else sys.argv[1:]))


def current_job() -> Job:
    """Return the running Hydra job; an empty one outside Hydra."""
    module = sys.modules.get("hydra.core.hydra_config")
    if module is None or not module.HydraConfig.initialized():
        return Job()
    config = module.HydraConfig.get()
    choices = tuple(
        (str(group), str(choice))
        for group, choice in config.runtime.choices.items()
        if choice is not None and not str(group).startswith("hydra/")
    )
    output_dir = config.runtime.get("output_dir")
    return Job(
        overrides=tuple(str(item) for item in config.overrides.task),
        run_dir=Path(output_dir) if output_dir else None,
        config_name=config.job.config_name,
        choices=choices,
        is_sweep=str(config.mode).endswith("MULTIRUN"),
    )


def variant_of(
    overrides: Sequence[str], *, experiment_key: str, seed_key: str, ignore: Sequence[str]
) -> str:
    """Return `+key=value` of each override that makes a variant, sorted; empty when none does.

    Values are written one way: `1e-2` and `0.01` are one variant.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    out: list[str] = []
    for item in OverridesParser.create().parse_overrides(list(overrides)):
        key = str(item.key_or_group)
        if key == experiment_key or ignored(key, [seed_key, "expdb", "hydra", *ignore]):
            continue
        if item.is_delete():
            out.append(f"+~{key}")
        else:
            out.append(f"+{key}={_value_text(item.value())}")
    return "".join(sorted(out))


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_value_text(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{_value_text(item)}' for key, item in value.items())}}}"
    text = getattr(value, "text", value)
    return repr(text) if isinstance(text, float) else str(text)


def experiment(job: Job, name: str | None, experiment_key: str) -> str:
    """Return the experiment's name: the caller's, else what the overrides say."""
    return name or experiment_of(job.overrides, experiment_key)


def added_keys(job: Job, keys: Sequence[str], experiment_key: str) -> dict[str, str]:
    """Return key -> nearest known key (or "") of the keys that the base config lacks and nobody added with `+`.

    The base is the primary config composed with the same group choices and without the experiment.
    """
    if job.config_name is None:
        return {}
    from difflib import get_close_matches

    from hydra.core.global_hydra import GlobalHydra
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    from expdb.digest import canonical, flatten

    if not GlobalHydra.instance().is_initialized():
        return {}  # a launcher that runs the job in another process keeps no loader
    groups = [
        f"{group}={choice}"
        for group, choice in job.choices
        if group.partition("@")[0] != experiment_key
    ]
    base = GlobalHydra.instance().config_loader().load_configuration(
        job.config_name, groups, run_mode=RunMode.RUN
    )
    raw = OmegaConf.to_container(base, resolve=False)
    known = flatten(canonical({k: v for k, v in raw.items() if k != "hydra"}))
    said = [text.lstrip("+").partition("=")[0] for text in job.overrides if text.startswith("+")]
    new = [key for key in keys if key not in known and not _below(key, known) and key not in said]
    return {key: next(iter(get_close_matches(key, list(known), n=1)), "") for key in new}


def _below(key: str, known: dict[str, Any]) -> bool:
    """Tell whether the base leaves this part open: a key above it is an empty mapping, null or missing there."""
    parts = key.split(".")
    return any(".".join(parts[:count]) in known for count in range(1, len(parts)))
