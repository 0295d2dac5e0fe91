"""The job that calls `start()`: its Hydra overrides, its folder, its command, as far as there is
Hydra.

Invariant: nothing here needs Hydra; without a running Hydra job the experiment is the caller's
`name`, else `adhoc`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.conf.script import entry_script
from expdb.digest import canonical, ignored, leaves
from expdb.redact import MARK, is_secret_key
from expdb.track.folder import experiment_of


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
    callbacks: tuple[str, ...] = ()
    """Overrides of Hydra's callbacks; without them a script that is pinned by one has no run."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command that starts this job alone: `python SCRIPT OVERRIDES`."""
        script = os.path.relpath(entry_script())
        own = (*self.overrides, *self.callbacks) if self.config_name else sys.argv[1:]
        return ("python", script, *own)


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
        callbacks=tuple(
            str(item)
            for item in config.overrides.get("hydra") or ()
            if str(item).lstrip("+").startswith("hydra/callbacks=")
        ),
    )


def variant_of(
    overrides: Sequence[str], *, experiment_key: str, seed_key: str, ignore: Sequence[str]
) -> str:
    """Return `+key=value` of each override that makes a variant, sorted; empty when none does.

    Values are written one way: `1e-2` and `0.01` are one variant. Of a key given twice the last
    value counts, as in Hydra. The value of a secret is not part of it.
    """
    if not overrides:
        return ""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    out: dict[str, str] = {}
    for item in OverridesParser.create().parse_overrides(list(overrides)):
        key = str(item.key_or_group)
        if key == experiment_key or ignored(key, [seed_key, "expdb", "hydra", *ignore]):
            continue
        if item.is_delete():
            out[key] = f"+~{key}"
        else:
            value = MARK if is_secret_key(key) else _value_text(item.value())
            out[key] = f"+{key}={value}"
    return "".join(sorted(out.values()))


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


RULES = "expdb.monitor."
"""Below it stand rules, whose names and fields are looked at by themselves."""

Base = tuple[Mapping[str, str], Any]
"""The group choices of a composed config, and the config without Hydra's own part, unresolved."""


def added_keys(
    job: Job,
    keys: Sequence[str],
    experiment_key: str,
    compose: Callable[[Sequence[str]], Base | None] | None = None,
) -> dict[str, str]:
    """Return key -> nearest known key (or "") of the keys that the base config lacks.

    The base is the primary config composed with the same group choices and without the experiment.
    Who adds a key on the command line with `+` means it: such a key is returned only if a known one
    is near. `compose` gives a config for group choices; by default the loader of this job does.
    """
    known = _base_keys(job, experiment_key, compose or _loaded(job)) if keys else None
    if known is None:
        return {}
    said = {text.lstrip("+").partition("=")[0] for text in job.overrides if text.startswith("+")}
    new = [
        key
        for key in keys
        if key not in known and not _is_open(key, known) and not key.startswith(RULES)
    ]
    found = {key: nearest(key, known) for key in new}
    return {key: near for key, near in found.items() if near or key not in said}


def _loaded(job: Job) -> Callable[[Sequence[str]], Base | None]:
    """Return what composes with the loader of this job."""

    def compose(groups: Sequence[str]) -> Base | None:
        if job.config_name is None:
            return None  # no Hydra job: it need not be loaded
        from hydra.core.global_hydra import GlobalHydra
        from hydra.errors import HydraException
        from hydra.types import RunMode
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        if not GlobalHydra.instance().is_initialized():
            return None  # a launcher that runs the job in another process keeps no loader
        loader = GlobalHydra.instance().config_loader()
        try:
            base = loader.load_configuration(job.config_name, list(groups), run_mode=RunMode.RUN)
            raw: Any = OmegaConf.to_container(base, resolve=False)
        except (HydraException, OmegaConfBaseException):
            return None
        return base.hydra.runtime.choices, {k: v for k, v in raw.items() if k != "hydra"}

    return compose


def _base_keys(
    job: Job, experiment_key: str, compose: Callable[[Sequence[str]], Base | None]
) -> set[str] | None:
    """Return the dotted keys of the base config.

    None when it cannot stand without its experiment, or not be composed here: there is nothing to
    compare with.
    """
    base = compose(())
    if base is None:
        return None
    own = base[0]
    chosen = [
        (group, choice)
        for group, choice in job.choices
        if group.partition("@")[0] != experiment_key and own.get(group) != choice
    ]
    if chosen:
        # A group that the defaults list lacks can only be appended.
        base = compose([f"{'' if g in own else '+'}{g}={c}" for g, c in chosen])
    return None if base is None else set(leaves(canonical(base[1])))


def _is_open(key: str, known: Collection[str]) -> bool:
    """Tell whether the base leaves this part open: a key above it is an empty mapping, null or
    missing there.
    """
    parts = key.split(".")
    return any(".".join(parts[:count]) in known for count in range(1, len(parts)))


def nearest(key: str, known: Collection[str]) -> str:
    """Return the known key that a typed one is likely to mean, or an empty text.

    Beside it first, also when one is the short form of the other (`learning_rate`, `lr`); then
    anywhere.
    """
    from difflib import get_close_matches

    above, _, last = key.rpartition(".")
    beside = {name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] == above}
    for name in get_close_matches(last, sorted(beside), n=1, cutoff=0.7):
        return beside[name]
    for name in sorted(beside):
        if name != last and (_is_short_for(name, last) or _is_short_for(last, name)):
            return beside[name]
    return next(iter(get_close_matches(key, sorted(known), n=1, cutoff=0.8)), "")


def _is_short_for(short: str, long: str) -> bool:
    """Tell whether `short` is made of the first letters of the words of `long`, or of its
    beginning.
    """
    words = long.split("_")
    initials = "".join(word[:1] for word in words)
    return len(short) > 1 and (short == initials or (len(short) > 2 and long.startswith(short)))
