"""What is watched, how often, and what it may cost: the section `expdb.watch` of a config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from expdb.errors import BadInput
from expdb.monitor.phases import PHASES

KINDS: Final = (
    "norms", "activations", "attention", "moe", "embeddings", "tokens", "memory", "start",
)  # fmt: skip
EVERY: Final = {"warmup": 1, "stable": 10, "decay": 10, "finetune": 10}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of `run.watch`; each is also a key of `expdb.watch`."""

    enabled: bool = True
    """Whether `Loop` watches by itself."""
    kinds: tuple[str, ...] = KINDS
    every: Mapping[str, int] = field(default_factory=lambda: dict(EVERY))
    """Phase -> steps between samples."""
    rare_every: int = 500
    """Steps between embeddings, heat maps, histograms and repeated n-grams; 0: never."""
    budget_pct: float = 2.0
    """What monitors may cost, in percent of training; the interval grows to keep it. 0: no bound,
    and then which steps are sampled depends on the phases alone.
    """
    phase: str = "auto"
    """`auto`: by the learning rate; or one of the phases for the whole run."""
    histograms: bool = False
    """Whether activations are kept as histograms too, with the rare ones."""
    forensics: bool = True
    """Whether the first loss that is not finite is traced to a module and a batch."""
    bytes_per_token: float = 0.0
    """For bits per byte; 0: it is not known."""
    peak_flops: float = 0.0
    """Of the device, per second, for the MFU; 0: of a known GPU, else no MFU."""

    def settings(self) -> dict[str, Any]:
        """Return the values as a config says them."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**found, "kinds": list(self.kinds), "every": dict(self.every)}


def options_of(section: Mapping[str, Any], **over: Any) -> Options:
    """Return the options of a section; those of `over` that are not None win.

    Raises:
        BadInput: an unknown name, or a value that makes no sense.
    """
    known = [one.name for one in fields(Options)]
    values = {**section, **{name: value for name, value in over.items() if value is not None}}
    for name in values:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            raise BadInput(
                f"watch has no option {name!r}",
                hint=f"nearest: {near[0]}" if near else f"known: {' '.join(known)}",
            )
    if "kinds" in values:
        values["kinds"] = tuple(values["kinds"])
        _require(values["kinds"], KINDS, "kinds")
    if "every" in values:
        every = values["every"]
        every = dict.fromkeys(PHASES, every) if isinstance(every, int) else {**EVERY, **every}
        _require(every, PHASES, "every")
        for name, steps in every.items():
            _require_count(steps, f"every.{name}", least=1)
        values["every"] = every
    if "phase" in values:
        _require([values["phase"]], ("auto", *PHASES), "phase")
    _require_count(values.get("rare_every", 0), "rare_every", least=0)
    return Options(**values)


def _require(found: Any, known: tuple[str, ...], name: str) -> None:
    wrong = [one for one in found if one not in known]
    if wrong:
        raise BadInput(f"watch.{name} has {wrong[0]!r}", hint=f"known: {' '.join(known)}")


def _require_count(value: Any, name: str, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadInput(f"watch.{name} is {value!r}, not a whole number of at least {least}")
