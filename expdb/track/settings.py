"""The effective `expdb:` section of a config: defaults, then what the config says.

Invariant: `run.json` keeps the result, so that readers never have to compose a config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expdb.errors import BadInput
from expdb.model import Objective

DEFAULTS: dict[str, Any] = {
    "store": None,
    "resume": "auto",
    "fork": None,
    "mode": "on",
    "print": "auto",
    "hints": True,
    "dirty": "snapshot",
    "seed_key": "seed",
    "experiment_key": "exp",
    "labels": [],
    "digest": {
        "ignore": [
            "expdb", "hydra", "loop.num_workers", "loop.device", "loop.print_every", "loop.log_dir",
        ],
    },
    "code": {
        "exclude": [
            "outputs/", "multirun/", "wandb/", "slurm-*.out", "*.log", "__pycache__/", ".submitit/",
        ],
        "secret_files": [
            ".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
            ".netrc", "credentials.json",
        ],
    },
    "keep": {"last": 2, "best": 1},
    "noise": {},
    "require": [],
    "journal": {"fsync_interval_s": 5.0},
}  # fmt: skip
CHOICES = {
    "mode": ("on", "off"),
    "dirty": ("snapshot", "allow", "refuse"),
    "print": ("auto", "lines", "quiet"),
}


def effective(section: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the defaults overlaid by a config's `expdb:` section.

    Raises:
        BadInput: an unknown key, a value outside its choices, a section that is no mapping.
    """
    if section is not None and not isinstance(section, Mapping):
        raise BadInput(f"the config key expdb is {type(section).__name__}, not a mapping")
    out = _overlay(DEFAULTS, section or {}, "expdb")
    for name, allowed in CHOICES.items():
        if out[name] not in allowed:
            raise BadInput(
                f"expdb.{name} is {out[name]!r}", hint=f"it is one of: {' '.join(allowed)}"
            )
    return out


def _overlay(base: Mapping[str, Any], top: Mapping[str, Any], path: str) -> dict[str, Any]:
    from difflib import get_close_matches

    out = {key: dict(value) if isinstance(value, dict) else value for key, value in base.items()}
    for key, value in top.items():
        if key not in base:
            near = get_close_matches(str(key), list(base), n=1)
            hint = f"nearest: {path}.{near[0]}" if near else f"known: {' '.join(sorted(base))}"
            raise BadInput(f"no setting is called {path}.{key}", hint=hint)
        inner = base[key]
        if isinstance(inner, dict) and inner:
            if not isinstance(value, Mapping):
                raise BadInput(f"{path}.{key} is {type(value).__name__}, not a mapping")
            out[key] = _overlay(inner, value, f"{path}.{key}")
        else:
            out[key] = value
    return out


def objective_of(value: Objective | Mapping[str, Any] | str | None) -> Objective | None:
    """Return the objective that a config or a caller declares.

    Raises:
        BadInput: it names no metric, or an unknown mode or reading.
    """
    if value is None or isinstance(value, Objective):
        return value
    if isinstance(value, str):
        value = {"metric": value}
    metric = value.get("metric")
    mode, reading = value.get("mode", "min"), value.get("reading", "last")
    if not metric or not isinstance(metric, str):
        raise BadInput("the objective names no metric", hint="objective: {metric: val/loss}")
    if mode not in ("min", "max"):
        raise BadInput(f"objective.mode is {mode!r}", hint="it is one of: min max")
    if reading not in ("last", "best", "mean_last_3"):
        raise BadInput(
            f"objective.reading is {reading!r}", hint="it is one of: last best mean_last_3"
        )
    return Objective(metric=metric, mode=mode, reading=reading)
