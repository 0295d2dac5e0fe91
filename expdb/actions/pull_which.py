"""Which runs of a remote a pull is about: those that words name, that filters select, or all.

Invariant: a filter reads only runs whose folders hold files alone; one that cannot be read is
selected by none, and named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from expdb.actions.exchange import Item, trying
from expdb.errors import BadInput, Corrupt, ExpdbError, NotFound, Refused
from expdb.store import ops
from expdb.store.files import reason
from expdb.store.layout import RunLayout
from expdb.store.remote_place import Place, runs_in
from expdb.store.resolve import MIN_PREFIX
from expdb.store.run_files import list_files
from expdb.store.runs import read_identity
from expdb.store.store import Store
from expdb.text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for; nothing is every run."""

    words: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    """Filters that must all hold."""

    @property
    def is_all(self) -> bool:
        """Whether every run was asked for."""
        return not (self.words or self.where)


def asked_items(
    store: Store, place: Place, here: dict[str, Path], asked: Asked, problems: list[str]
) -> list[Item]:
    """Return the runs of a remote that were asked for, by experiment and id; what cannot be looked
    into is named in `problems`.

    Raises:
        NotFound, BadInput: a word names none, or a filter selects none or makes no sense.
    """
    found = []
    for run, folder in runs_in(place, problems):
        item = Item(
            run=run, name="", src=RunLayout(folder), home=folder, wants_old=bool(asked.words)
        )
        trying(item, lambda item=item: _name(store, item, here))  # type: ignore[misc]
        found.append(item)
    if asked.is_all:
        return found
    wanted = {run for word in asked.words for run in _matching(found, word, place)}
    if asked.where:
        wanted |= _selected(found, asked.where, place, problems)
    return [item for item in found if item.run in wanted]


def _selected(
    items: Collection[Item], where: tuple[str, ...], place: Place, problems: list[str]
) -> set[str]:
    """Return the runs that filters select, by what the remote says of them."""
    from expdb.index.elsewhere import open_runs
    from expdb.query.select import Selection, where_of

    folders = {}
    for item in items:
        if item.is_refused:
            problems.append(_left_out(item, item.why))
            continue
        try:
            list_files(item.src.root)
        except (ExpdbError, OSError) as error:
            why = error.message if isinstance(error, ExpdbError) else reason(error)
            problems.append(_left_out(item, why))
        else:
            folders[item.run] = item.src.root
    with open_runs(place.root, place.id, folders) as reader:
        chosen = where_of(reader, Selection(where=where), now_ms=ops.now_ms())
        sql = f"SELECT r.id FROM runs r WHERE {chosen.sql}"
        found = {str(row[0]) for row in reader.rows(sql, chosen.params)}
        problems += [*reader.warnings, *chosen.warnings]
    if not found:
        raise NotFound(
            f"the filter selects no run of {place.name}",
            hint=f"what it has: expdb pull {place.name} --dry-run",
        )
    return found


def _left_out(item: Item, why: str) -> str:
    return f"no filter selects {item.run}, which cannot be read: {why}"


def _name(store: Store, item: Item, here: dict[str, Path]) -> None:
    """Find out what a run is called, and where it belongs here."""
    data = read_identity(item.src)
    experiment, variant = data.get("experiment"), data.get("variant") or ""
    if not isinstance(experiment, str) or not isinstance(variant, str):
        raise Corrupt("run.json does not say its experiment")
    item.experiment, item.name = experiment, experiment + variant
    item.home = store.layout.run_dir(experiment, item.run)
    if item.home.parent.name != item.src.root.parent.name:
        raise Refused(
            f"it lies in {plain(item.src.root.parent.name)}, and run.json says experiment"
            f" {plain(experiment[:80])}"
        )
    there = here.get(item.run, item.home)
    if there != item.home:
        raise Refused(f"run {item.run} is here already, in {plain(there.parent.name)}")


def _matching(items: Iterable[Item], word: str, place: Place) -> list[str]:
    if not word:
        raise BadInput("a run is named by a word", hint=f"all of them: expdb pull {place.name}")
    is_long = len(word) >= MIN_PREFIX
    known = list(items)
    found = [item.run for item in known if is_long and item.run.startswith(word)]
    found = found or [item.run for item in known if word in (item.name, item.experiment)]
    if not found:
        raise NotFound(
            f"the remote {place.name} has no run {plain(word[:80])}",
            hint=f"what it has: expdb pull {place.name} --dry-run",
        )
    return found
