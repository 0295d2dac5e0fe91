"""The effective `expdb:` section of a config: defaults, then what the config says.

Invariant: `run.json` keeps the result, so that readers never have to compose a config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from expdb.errors import BadInput
from expdb.model import Objective
from expdb.notify.channel import channels_of
from expdb.store.gates import gates_of
from expdb.store.retention import keep_of
from expdb.track.watch.options import Options, options_of

DEFAULTS: dict[str, Any] = {
    "store": None,
    "resume": "auto",
    "assume_dead": False,
    "skip_batches": 0,
    "lr_scale": 1.0,
    "fork": None,
    "mode": "on",
    "print": "auto",
    "hints": True,
    "dirty": "snapshot",
    "seed_key": "seed",
    "experiment_key": "exp",
    "labels": [],
    "study": None,
    "entry": None,
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
    "monitor": {},
    "watch": Options().settings(),
    "notify": {},
    "noise": {},
    "require": [],
    "gates": {},
    "resolvers": {},
    "slurm": {},
    "journal": {"fsync_interval_s": 5.0},
}  # fmt: skip
FREE = frozenset(
    [
        "store", "resume", "fork", "mode", "keep", "study", "entry", "monitor", "watch",
        "notify", "resolvers", "gates", "slurm",
    ]
)  # fmt: skip
"""Settings whose values are looked at where they are used; `mode` may be a YAML boolean."""
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
    if isinstance(out["mode"], bool):  # YAML reads a bare `off` as false
        out["mode"] = "on" if out["mode"] else "off"
    if not isinstance(out["keep"], Mapping):
        raise BadInput(f"expdb.keep is {type(out['keep']).__name__}, not a mapping")
    out["keep"] = asdict(keep_of(out["keep"]))
    out["gates"] = {} if out["gates"] is None else out["gates"]
    gates_of(out["gates"], "expdb.gates")
    out["watch"] = _watch(out["watch"])
    channels_of(out["notify"])
    out["notify"] = out["notify"] or {}
    resolvers = out["resolvers"]
    if not isinstance(resolvers, Mapping) or not all(
        isinstance(place, str) and place.find(":") > 0 for place in resolvers.values()
    ):
        raise BadInput("expdb.resolvers is no mapping of names to `package.module:function`")
    out["resolvers"] = {str(name): str(place) for name, place in resolvers.items()}
    slurm = {} if out["slurm"] is None else out["slurm"]
    if not isinstance(slurm, Mapping) or not all(isinstance(name, str) for name in slurm):
        raise BadInput("expdb.slurm is no mapping of the names of SLURM's settings to values")
    out["slurm"] = dict(slurm)
    if out["study"] is not None:
        out["study"] = _checked(out["study"], "", "expdb.study")
    for name, allowed in CHOICES.items():
        if out[name] not in allowed:
            raise BadInput(
                f"expdb.{name} is {out[name]!r}", hint=f"it is one of: {' '.join(allowed)}"
            )
    return out


def _watch(section: Any) -> dict[str, Any]:
    if isinstance(section, bool):  # `watch: false` is the whole of it
        section = {"enabled": section}
    if not isinstance(section, Mapping):
        raise BadInput(f"expdb.watch is {type(section).__name__}, not a mapping or true or false")
    return options_of(section).settings()


def _overlay(base: Mapping[str, Any], top: Mapping[str, Any], path: str) -> dict[str, Any]:
    from difflib import get_close_matches

    out = {key: dict(value) if isinstance(value, dict) else value for key, value in base.items()}
    for key, value in top.items():
        if key not in base:
            near = get_close_matches(str(key), list(base), n=1)
            hint = f"nearest: {path}.{near[0]}" if near else f"known: {' '.join(sorted(base))}"
            raise BadInput(f"no setting is called {path}.{key}", hint=hint)
        inner, name = base[key], f"{path}.{key}"
        if key in FREE:
            out[key] = value
        elif not isinstance(inner, dict):
            out[key] = _checked(value, inner, name)
        elif not isinstance(value, Mapping):
            raise BadInput(f"{name} is {type(value).__name__}, not a mapping")
        elif inner:
            out[key] = _overlay(inner, value, name)
        else:
            out[key] = {str(k): _checked(v, 0.0, f"{name}.{k}") for k, v in value.items()}
    return out


def _checked(value: Any, default: Any, name: str) -> Any:
    """Return the value if it is of its default's kind."""
    match default:
        case bool():
            fits, kind = isinstance(value, bool), "true or false"
        case int() | float():
            fits = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
            kind = "a number of at least 0"
        case list():
            fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
            kind = "a list of texts"
        case _:
            fits, kind = isinstance(value, str) and bool(value), "a text"
    if not fits:
        raise BadInput(f"{name} is {value!r}, not {kind}")
    return value


def declared_objective(value: Any) -> Objective | None:
    """Return the objective that a config's section `objective` declares; None when it is about
    something else.

    Raises:
        BadInput: it names a metric, and an unknown mode or reading.
    """
    return objective_of(value) if isinstance(value, Mapping) and "metric" in value else None


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
