"""What is declared here, with a line about it while it takes long to compose."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expdb.cli.context import Context
    from expdb.query.declared_results import Declaration
    from expdb.store.store import Store


def declaration_here(context: Context, store: Store) -> Declaration:
    """Return what is declared here.

    Raises:
        NotFound: there is no config.
    """
    from expdb.cli.progress import Progress
    from expdb.index.newest import folders
    from expdb.query.declared_cache import declaration
    from expdb.query.entry import find_entry

    entry = find_entry(context.places, store)
    with Progress(context.out, "composing", "experiments") as progress:
        return declaration(entry, next(iter(folders(store)), None), tick=progress)
