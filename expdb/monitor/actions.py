"""What a rule may do when it fires, as data; nothing by itself.

    loss_spike:
      actions:                                # in this order
        - tag                                 # a word alone has its defaults
        - rewind: {back: 100, skip: 300, at: critical}
        - stop                                # where the rewind could not be done

`at` is `open` (when the alert opens) or `critical` (when it is or becomes critical).

Invariant: here is only what a config says, checked; track/acting.py does it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from expdb.errors import BadInput

SKIP_STEP: Final = "skip_step"
TRAINING: Final = frozenset([SKIP_STEP, "lower_lr", "decay"])
"""Actions that change how weights come to be, and nothing else: a repetition needs them too."""
KNOWN_BEFORE: Final = ("train/loss", "train/grad_norm")
"""The metrics of an update that are known before its optimizer steps."""


class _Option(NamedTuple):
    default: Any
    fits: Callable[[Any], bool]
    kind: str


def _whole(default: int, least: int) -> _Option:
    def fits(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= least

    return _Option(default, fits, f"a whole number of at least {least}")


def _share(default: float, *, may_be_zero: bool = False) -> _Option:
    def fits(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return 0 < value <= 1 or (may_be_zero and value == 0)

    return _Option(default, fits, f"a number from 0 to 1{'' if may_be_zero else ', not 0'}")


def _word(*words: str) -> _Option:
    return _Option(words[0], lambda value: value in words, f"one of: {' '.join(words)}")


AT: Final = _word("open", "critical")
OPTIONS: Final[Mapping[str, Mapping[str, _Option]]] = {
    "note": {},
    "tag": {"back": _whole(1, 1)},
    "save": {},
    SKIP_STEP: {},
    "lower_lr": {"by": _share(0.5)},
    "decay": {"to": _share(0.0, may_be_zero=True), "steps": _whole(200, 1)},
    "early_stop": {"restore": _word("best", "last")},
    "pause": {},
    "stop": {},
    "rewind": {
        "back": _whole(100, 1),
        "skip": _whole(200, 0),
        "lr_scale": _share(1.0),
        "tries": _whole(2, 1),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do, with all its options."""

    name: str
    at: str = "open"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, option: str) -> Any:
        return self.options[option]


def actions_of(
    value: Any, where: str, *, signal: Collection[str], knows_best: bool
) -> tuple[Action, ...]:
    """Return the actions that a rule declares; `knows_best` says whether its detector does.

    Raises:
        BadInput: an action or an option is unknown, of another type, or not one for this rule.
    """
    if value is None:
        return ()
    items: Sequence[Any] = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(items, Sequence):
        raise BadInput(f"{where} is {value!r:.60}, not a list of actions", hint=_known())
    found = tuple(one for item in items for one in _one(item, where))
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{where} has {name} twice")
    if SKIP_STEP in names and not set(signal) & set(KNOWN_BEFORE):
        raise BadInput(
            f"{where} has skip_step, and {', '.join(signal)} is known after the update only",
            hint=f"a rule about {' or '.join(KNOWN_BEFORE)} can skip a step",
        )
    for one in found:
        if one.name == "early_stop" and one["restore"] == "best" and not knows_best:
            raise BadInput(
                f"{where}.early_stop restores the best, and the detector of this rule knows none",
                hint="detector: no_gain or overfit; or early_stop: {restore: last}",
            )
    return found


def _one(item: Any, where: str) -> list[Action]:
    if isinstance(item, str):
        item = {item: None}
    if not isinstance(item, Mapping) or not item:
        raise BadInput(f"{where} has {item!r:.60}, which is no action", hint=_known())
    out = []
    for name, given in item.items():
        if name not in OPTIONS:
            raise BadInput(f"no action is called {where}.{name}", hint=_near(name, OPTIONS))
        known = OPTIONS[name] if name == SKIP_STEP else {**OPTIONS[name], "at": AT}
        if given is not None and not isinstance(given, Mapping):
            raise BadInput(f"{where}.{name} is {given!r:.60}, not a mapping of its options")
        options = {key: option.default for key, option in known.items()}
        for key, value in (given or {}).items():
            if key not in known:
                said = f"no option of {name} is called {where}.{name}.{key}"
                raise BadInput(said, hint=_near(key, known) if known else "it has none")
            if not known[key].fits(value):
                raise BadInput(f"{where}.{name}.{key} is {value!r:.60}, not {known[key].kind}")
            options[key] = value
        at = options.pop("at", "open")
        out.append(Action(name=str(name), at=at, options=options))
    return out


def _known() -> str:
    return f"known: {' '.join(OPTIONS)}"


def _near(name: Any, known: Collection[str]) -> str:
    near = get_close_matches(str(name), list(known), n=1)
    return f"nearest: {near[0]}" if near else f"known: {' '.join(known)}"
