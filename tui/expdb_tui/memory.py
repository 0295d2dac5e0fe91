"""What the app remembers of a store: the last screen, order, filter, columns, smoothing, ground.

    {"format": 1, "store": path, "app": {...}, "runs": {...}, "plot": {...}, ...}

Invariant: it lies in the user's own folder and never in the store; a file that cannot be used is
said and then forgotten; one that cannot be written ends the remembering, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from expdb.errors import Corrupt
from expdb.store.files import read_json, reason, write_json
from expdb.store.store import Store

FORMAT: Final = 1
Kind = TypeVar("Kind")
Said = Mapping[str, Any]
"""What one screen remembers; its values are of any kind, as a file may hold anything."""


class Look(Protocol):
    """A screen that has a look of its own."""

    def remember(self) -> Said:
        """Return what of this look is to be there again next time."""

    def relook(self) -> None:
        """Draw with other signs, or on another ground."""


class Wrong(ValueError):
    """A value that nobody can have remembered."""


def take(said: Said, name: str, kind: type[Kind], usual: Kind) -> Kind:
    """Return a remembered value.

    Raises:
        Wrong: it is of another kind.
    """
    value = said.get(name, usual)
    if type(value) is not kind:
        raise Wrong(name)
    return value


def take_words(said: Said, name: str) -> tuple[str, ...]:
    """Return remembered words.

    Raises:
        Wrong: they are none.
    """
    value = said.get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Wrong(name)
    return tuple(value)


class Memory:
    """What is remembered of one store."""

    def __init__(self, path: Path | None, store: str = "") -> None:
        self.problem = ""
        """Why nothing is remembered, for people; empty where all is well."""
        self._path, self._store = path, store
        self._saved: dict[str, Any] = {}

    @property
    def is_on(self) -> bool:
        """Whether anything is remembered at all."""
        return self._path is not None

    def of(self, scope: str) -> Said:
        """Return what a screen remembers."""
        found = self._saved.get(scope, {})
        return found if isinstance(found, dict) else {}

    def load(self) -> None:
        """Read what was remembered."""
        if self._path is None:
            return
        try:
            found = read_json(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except Corrupt as error:
            self.problem = f"what was remembered is forgotten: {error.message}"
            return
        if found.get("format") != FORMAT:
            self.problem = "what was remembered is forgotten: another expdb wrote it"
            return
        self._saved = found

    def forget(self) -> None:
        """Remember nothing of what was.

        Raises:
            OSError: the file cannot be removed.
        """
        self._saved = {}
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def changed(self, scopes: Mapping[str, Said]) -> bool:
        """Tell whether there is something new to remember."""
        return self.is_on and any(self._saved.get(name) != said for name, said in scopes.items())

    def save(self, scopes: Mapping[str, Said]) -> None:
        """Remember; scopes that are not named stay as they are."""
        if self._path is None or not self.changed(scopes):
            return
        data = {**self._saved, **scopes, "format": FORMAT, "store": self._store}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, data, durable=False)
        except OSError as error:
            self.problem = f"nothing is remembered: {self._path.parent}: {reason(error)}"
            self._path = None
            return
        self._saved = data


def memory_of(store: Store, folder: Path) -> Memory:
    """Return the memory of a store; a copy of it at another place has its own."""
    root = store.root.resolve()
    name = hashlib.sha256(f"{store.id}\0{root}".encode()).hexdigest()[:16]
    return Memory(folder / f"{name}.json", str(root))
