"""The keys: each binding has a name, and a file of the user's may give it other keys.

A name is `SCREEN.DEED`: `runs.mark`, `everywhere.quit`, `move.up`. On a screen its own names hold,
and those of `everywhere` and `move`.

Invariant: on no screen has one key two meanings; a file in which one would is not used at all.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS, Keys

from expdb.errors import BadInput
from expdb.text import plain

SHARED: Final = ("everywhere", "move")
"""Scopes that hold on all screens."""
SIGNS: Final[Mapping[str, str]] = {
    "[": "left_square_bracket", "]": "right_square_bracket", "/": "slash", "+": "plus",
    "-": "minus", "?": "question_mark", ":": "colon", "!": "exclamation_mark",
    ">": "greater_than_sign", "<": "less_than_sign", "=": "equals_sign", "esc": "escape",
}  # fmt: skip
"""How keys are written for people -> their names."""
WRITTEN: Final = {name: sign for sign, name in SIGNS.items()}
MODIFIERS: Final = frozenset({"ctrl", "shift", "alt", "super", "meta", "hyper"})
KNOWN: Final = frozenset(
    {key.value for key in Keys} | {*KEY_NAME_REPLACEMENTS.values(), *SIGNS.values()}
)
FORM: Final = "an example: runs.mark: space"

Hints = Sequence[tuple[str, str]]
"""(keys, what they do), as the foot and the help show them."""


def key(keys: str, action: str, id: str, *, priority: bool = False) -> Binding:
    """Return a binding that has a name."""
    return Binding(keys, action, show=False, id=id, priority=priority)


def bound(bindings: Iterable[BindingType]) -> dict[str, tuple[str, ...]]:
    """Return name -> keys of bindings; those without a name are not to be changed."""
    found: dict[str, list[str]] = {}
    for one in bindings:
        if isinstance(one, Binding) and one.id:
            keys = found.setdefault(one.id, [])
            keys += [word for word in one.key.split(",") if word not in keys]
    return {name: tuple(keys) for name, keys in found.items()}


class KeyNames:
    """The keys of all bindings: the usual ones, with those that the user chose."""

    def __init__(
        self, usual: Mapping[str, tuple[str, ...]], own: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self.usual = usual
        self.own = dict(own or {})

    def keys(self, name: str) -> tuple[str, ...]:
        """Return the keys of a binding."""
        return self.own.get(name) or self.usual[name]

    def shown(self, scope: str, hints: Hints) -> list[tuple[str, str]]:
        """Return hints with the keys that hold: they are written with the usual ones."""
        if not self.own:
            return list(hints)
        return [(" ".join(self._word(scope, word) for word in keys.split(" ")), said)
                for keys, said in hints]  # fmt: skip

    def _word(self, scope: str, word: str) -> str:
        usual = SIGNS.get(word, word)
        for name, keys in self.usual.items():
            if name.split(".")[0] in (scope, *SHARED) and usual in keys and name in self.own:
                return written(self.own[name][0])
        return word

    def as_file(self) -> list[str]:
        """Return the lines of a file that says what holds now."""
        out = []
        for name in self.usual:
            words = [_quoted(written(one)) for one in self.keys(name)]
            said = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
            out.append(f"{name}: {said}")
        return out


def written(key: str) -> str:
    """Return how a key is written for people."""
    *modifiers, last = key.split("+")
    return "+".join([*modifiers, WRITTEN.get(last, last)])


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[A-Za-z0-9_+]+", word) and len(word) > 1 else f"'{word}'"


def read_keys(path: Path, usual: Mapping[str, tuple[str, ...]]) -> KeyNames:
    """Return the usual keys with those of a file; of a file that is not there the usual ones.

    Raises:
        BadInput: it cannot be read, names what is not there, or gives one key two meanings.
    """
    import yaml  # type: ignore[import-untyped]

    try:
        data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return KeyNames(usual)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        said = str(error).split("\n")[0]
        raise BadInput(f"{path.name} cannot be read: {plain(said)}", hint=FORM) from None
    if data is None:
        return KeyNames(usual)
    if not isinstance(data, Mapping):
        raise BadInput(f"{path.name} holds no names with keys", hint=FORM)
    own = {}
    for name, said in data.items():
        if name not in usual:
            raise BadInput(
                f"{path.name}: no key is called {plain(str(name))}", hint=_nearest(name, usual)
            )
        own[str(name)] = _keys(path, str(name), said)
    _require_clear(path, {**usual, **own})
    return KeyNames(usual, own)


def _nearest(name: object, usual: Mapping[str, tuple[str, ...]]) -> str:
    close = difflib.get_close_matches(str(name)[:80], usual, n=1, cutoff=0.5)
    return f"nearest: {close[0]}" if close else "all of them: expdb tui --keys"


def _keys(path: Path, name: str, said: Any) -> tuple[str, ...]:
    words = said if isinstance(said, list) else str(said).split(", ")
    found = tuple(dict.fromkeys(_key(str(word).strip()) for word in words))
    for word, one in zip(words, found, strict=False):
        if not one:
            raise BadInput(f"{path.name}: {name}: {plain(str(word))!r} is no key", hint=FORM)
    return found


def _key(word: str) -> str:
    """Return the name of a key as the app gets it; empty where there is no such key."""
    *modifiers, last = word.split("+") if len(word) > 1 else [word]
    if not MODIFIERS.issuperset(modifiers):
        return ""
    last = SIGNS.get(last, last)
    if len(last) == 1 and last.isprintable() and not last.isspace():
        if not last.isalnum():
            last = unicodedata.name(last, "").lower().replace("-", "_").replace(" ", "_")
            last = KEY_NAME_REPLACEMENTS.get(last, last)
    elif last not in KNOWN:
        return ""
    return "+".join([*modifiers, last])


def _require_clear(path: Path, keys: Mapping[str, tuple[str, ...]]) -> None:
    scopes = {name.split(".")[0] for name in keys} - set(SHARED)
    for scope in sorted(scopes):
        taken: dict[str, str] = {}
        for name, own in keys.items():
            if name.split(".")[0] not in (scope, *SHARED):
                continue
            for one in own:
                other = taken.setdefault(one, name)
                if other != name:
                    raise BadInput(
                        f"{path.name}: {written(one)} is both {other} and {name}",
                        hint=f"give one of them another key: {name}: f2",
                    )
