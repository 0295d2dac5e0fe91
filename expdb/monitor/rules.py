"""The rules that a config switches on: the built-in ones, changed by its `expdb.monitor` section.

    expdb:
      monitor:
        loss_jump: true               # a built-in rule that is off by itself
        throughput_drop: false        # one that is on
        loss_spike: {k: 8}            # single fields of one
        my_rule: {signal: ..., ...}   # one of your own, with all that rule.py names

`monitor: false` switches all of them off.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from expdb.errors import BadInput
from expdb.monitor.builtin import CORE, DOCUMENTS
from expdb.monitor.builtin_layers import LAYERS
from expdb.monitor.builtin_start import START
from expdb.monitor.rule import Rule, rule_of

BUILT_IN: Mapping[str, Mapping[str, Any]] = {**CORE, **LAYERS, **START, **DOCUMENTS}


@cache
def built_in(name: str) -> Rule:
    """Return a built-in rule as it is without a config."""
    return rule_of(name, BUILT_IN[name], name)


def build_rules(section: Mapping[str, Any] | bool | None) -> tuple[Rule, ...]:
    """Return the rules that are on: the built-in ones in their order, then those of the section.

    Raises:
        BadInput: an unknown rule, field or value; a new rule that lacks one.
    """
    if section is False:
        return ()
    if section is True or section is None:
        section = {}
    if not isinstance(section, Mapping):
        raise BadInput(
            f"expdb.monitor is {type(section).__name__}, not a mapping of rules",
            hint="expdb.monitor: {loss_spike: true}",
        )
    for name, value in section.items():
        _require_known(str(name), value)
    names = [name for name in BUILT_IN if _is_on(name, section.get(name))]
    own = [str(name) for name in section if name not in BUILT_IN and section[name].get("on", True)]
    return tuple(_rule(name, section.get(name)) for name in [*names, *own])


def _require_known(name: str, value: Any) -> None:
    where = f"expdb.monitor.{name}"
    if name in BUILT_IN:
        if value is not None and not isinstance(value, bool | Mapping):
            raise BadInput(f"{where} is {value!r:.60}", hint="true, false, or fields of the rule")
    elif not isinstance(value, Mapping) or "detector" not in value:
        near = get_close_matches(name, list(BUILT_IN), n=1)
        known = f"nearest: {near[0]}" if near else f"known: {' '.join(BUILT_IN)}"
        raise BadInput(
            f"no rule is called {where}", hint=f"{known}; a rule of your own names its detector"
        )


def _is_on(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return bool(value.get("on", True))
    return bool(BUILT_IN[name].get("on", True))


def _rule(name: str, value: Any) -> Rule:
    if not isinstance(value, Mapping):
        return built_in(name)
    where = f"expdb.monitor.{name}"
    base = BUILT_IN.get(name, {})
    if value.get("detector", base.get("detector")) != base.get("detector") and base:
        raise BadInput(
            f"{where} has another detector than the built-in rule {name}",
            hint="give it a name of its own",
        )
    body = {**base, **{str(key): field for key, field in value.items()}}
    if isinstance(base.get("runbook"), Mapping) and isinstance(value.get("runbook"), Mapping):
        body["runbook"] = {**base["runbook"], **value["runbook"]}
    return rule_of(name, body, where)
