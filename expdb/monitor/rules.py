"""The rules that a config switches on: its `expdb.monitor` section as detectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from expdb.errors import BadInput
from expdb.monitor.detector import Detector
from expdb.monitor.non_finite import NonFinite

RULES: Mapping[str, Callable[[], Detector]] = {"non_finite": NonFinite}


def build_rules(section: Mapping[str, Any]) -> dict[str, Detector]:
    """Return rule name -> detector for each rule that is on.

    Raises:
        BadInput: an unknown rule, or a value that is not true or false.
    """
    out: dict[str, Detector] = {}
    for name, value in section.items():
        if name not in RULES:
            near = get_close_matches(str(name), list(RULES), n=1)
            raise BadInput(
                f"no rule is called expdb.monitor.{name}",
                hint=f"nearest: {near[0]}" if near else f"known: {' '.join(RULES)}",
            )
        if not isinstance(value, bool):
            raise BadInput(f"expdb.monitor.{name} is {value!r}", hint="it is true or false")
        if value:
            out[name] = RULES[name]()
    return out
