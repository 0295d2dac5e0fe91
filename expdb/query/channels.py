"""The channels that are declared here, and how each fares.

They are those of the config that training composes here, without an experiment; where none can be
composed, those that the newest run had.

Invariant: nothing is written and no connection is made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import ExpdbError, NotFound
from expdb.notify import sending
from expdb.notify.address import Reach, needs_of
from expdb.notify.channel import Channel, channels_of
from expdb.notify.ledger import Ledger
from expdb.query.composed import Failure, composer
from expdb.query.entry import find_entry
from expdb.store.layout import RunLayout
from expdb.store.runs import read_identity, run_dirs
from expdb.store.store import Store
from expdb.text import plain
from expdb.track.config import plain_section


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Which channels there are, and who says so."""

    channels: tuple[Channel, ...]
    where: str
    """`conf/train.yaml`, or `the config of run k3f9`."""
    reach: Reach
    note: str = ""
    """Why it is not the config of here, where one was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow:
    """One channel, what it needs, and how it has fared."""

    channel: Channel
    needs: tuple[str, str]
    """(env, file or empty; the name of the variable or file)."""
    problem: str
    """What it lacks; empty where it can be used."""
    last_post_ms: int | None = None
    failing_since_ms: int | None = None


def declared_channels(
    places: Sequence[Path], store: Store | None, env: Mapping[str, str]
) -> Declared:
    """Return the channels that are declared here.

    Args:
        places: the folders to look for a config in, in order.
        store: its newest run is asked where there is no config.
        env: where addresses are.

    Raises:
        BadInput: a channel makes no sense.
    """
    base = store.root.parent if store is not None else places[0]
    reach = Reach(env=env, base=base)
    section, where, note = _composed(places, store)
    found = channels_of(section)
    if not found and store is not None:
        recorded, run = _recorded(store)
        found = tuple(one for one in recorded if is_harmless(one))
        where = run if found or not where else where
        if len(found) < len(recorded):
            names = ", ".join(plain(one.name) for one in recorded if not is_harmless(one))
            note = f"left out: {names}; {run} names a command, a file or a bare address, which only"
            note += " a config here may do"
    return Declared(channels=found, where=where, reach=reach, note=note)


def is_harmless(channel: Channel) -> bool:
    """Tell whether a channel may be used because a run of the store names it: the run may have come
    from elsewhere, and must not start commands or write files here.
    """
    return bool(channel.url_env or channel.url_file)


def one_of(declared: Declared, name: str | None) -> tuple[Channel, ...]:
    """Return the channel of a name, or all.

    Raises:
        NotFound: there is none.
    """
    if not declared.channels:
        raise NotFound("no channel is declared", hint="expdb.notify in a config: expdb notify")
    if name is None:
        return declared.channels
    found = tuple(one for one in declared.channels if one.name == name)
    if not found:
        known = ", ".join(plain(one.name) for one in declared.channels)
        raise NotFound(f"no channel is called {plain(name)}", hint=f"there is: {known}")
    return found


def channel_rows(declared: Declared, store: Store | None) -> tuple[ChannelRow, ...]:
    """Return every channel with how it fares."""
    return tuple(_row(one, declared.reach, store) for one in declared.channels)


def _row(channel: Channel, reach: Reach, store: Store | None) -> ChannelRow:
    last = failing = None
    if store is not None:
        posts = Ledger(store.layout, channel.name).posts()
        last = max(posts.sent_ms, default=None)
        failing = posts.failing_since_ms or None
    return ChannelRow(
        channel=channel,
        needs=needs_of(channel),
        problem=sending.problem_of(channel, reach),
        last_post_ms=last,
        failing_since_ms=failing,
    )


def _composed(places: Sequence[Path], store: Store | None) -> tuple[Any, str, str]:
    """Return `expdb.notify` of the config here, its file, and why there is none."""
    try:
        entry = find_entry(places, store)
    except NotFound:
        return None, "", ""
    shown = os.path.relpath(entry.path, places[0])
    with composer(entry) as made:
        config = made.compose(())
    if isinstance(config, Failure):
        return None, "", f"{shown} cannot be composed: {config.message}"
    section = plain_section(config.composed.tree, "expdb")
    return section.get("notify") if isinstance(section, dict) else None, shown, ""


def _recorded(store: Store) -> tuple[tuple[Channel, ...], str]:
    """Return what the newest run that can be read was started with."""
    for run, folder, _ in sorted(run_dirs(store.root), key=lambda one: -one[2][0])[:50]:
        try:
            settings = read_identity(RunLayout(folder)).get("settings")
            section = settings.get("notify") if isinstance(settings, dict) else None
            return channels_of(section), f"the config of run {run[:4]}"
        except ExpdbError:
            continue
    return (), ""
