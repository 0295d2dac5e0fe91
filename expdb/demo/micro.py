"""Generated text with rules that can be learned: four families of short lines.

    arithmetic     17+5=22
    instructions   rev abc: cba          also `up`, `dup` and `last`
    brackets       ([{ -> }])
    facts          Tavo lives in Nerim.  The home of Tavo is Nerim.

A line is in the training or in the validation part by its item: a sum, a word with its order, an
opening of brackets. Of a fact both phrasings are trained on, but of every fifth person only the
first one; the second is validation, so getting it right is transfer and not memory.

Invariant: the text is the same bytes on every machine and Python, as it takes nothing but
`random.Random(SEED).random()`, whose sequence Python promises to keep. What follows `=`, `:`, `->`
and `is` is determined by what stands before it: its entropy is zero.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

SEED = 20_261_130
VAL_EVERY = 10
NUM_WORDS = 300
NUM_PEOPLE = 300
HELD_OUT_EVERY = 5
"""Every fifth person's second phrasing is validation: 60 people."""
CLOSING = {"(": ")", "[": "]", "{": "}"}
ORDERS: Mapping[str, Callable[[str], str]] = {
    "rev": lambda word: word[::-1],
    "up": str.upper,
    "dup": lambda word: word + word,
    "last": lambda word: word[-1],
}

Lines = tuple[list[str], list[str]]
"""Training and validation lines."""


def family_lines(name: str) -> Lines:
    """Return the lines of one family in random order; `micro` is all four of them, mixed."""
    draw = random.Random(f"{SEED}:{name}").random
    if name == "micro":
        parts = [family_lines(family) for family in FAMILIES]
        train = [line for part in parts for line in part[0]]
        val = [line for part in parts for line in part[1]]
    else:
        train, val = FAMILIES[name](draw)
    return _shuffled(train, draw), _shuffled(val, draw)


def micro_text(name: str) -> tuple[bytes, bytes]:
    """Return the training and validation text of a family, or of `micro`."""
    train, val = family_lines(name)
    return "\n".join(train).encode(), "\n".join(val).encode()


def _arithmetic(draw: Callable[[], float]) -> Lines:
    return _split(_shuffled([f"{a}+{b}={a + b}" for a in range(40) for b in range(40)], draw))


def _instructions(draw: Callable[[], float]) -> Lines:
    words = _distinct(lambda: _word(3 + int(draw() * 3), draw), NUM_WORDS)
    lines = [f"{name} {word}: {order(word)}" for word in words for name, order in ORDERS.items()]
    return _split(_shuffled(lines, draw))


def _brackets(draw: Callable[[], float]) -> Lines:
    lines = []
    for length in range(2, 7):
        for opening in itertools.product(CLOSING, repeat=length):
            closing = "".join(CLOSING[one] for one in reversed(opening))
            lines.append(f"{''.join(opening)} -> {closing}")
    return _split(_shuffled(lines, draw))


def _facts(draw: Callable[[], float]) -> Lines:
    homes = _distinct(lambda: _name(draw), 12)
    people = [name for name in _distinct(lambda: _name(draw), NUM_PEOPLE + 12) if name not in homes]
    train: list[str] = []
    val: list[str] = []
    for number, person in enumerate(people[:NUM_PEOPLE]):
        home = _one_of(homes, draw)
        train.append(f"{person} lives in {home}.")
        held_out = number % HELD_OUT_EVERY == 0
        (val if held_out else train).append(f"The home of {person} is {home}.")
    return train, val


FAMILIES: Mapping[str, Callable[[Callable[[], float]], Lines]] = {
    "arithmetic": _arithmetic,
    "instructions": _instructions,
    "brackets": _brackets,
    "facts": _facts,
}


def _split(lines: Sequence[str]) -> Lines:
    val = list(lines[::VAL_EVERY])
    return [line for index, line in enumerate(lines) if index % VAL_EVERY], val


def _word(length: int, draw: Callable[[], float]) -> str:
    return "".join(_one_of("abcdefghijklmnopqrstuvwxyz", draw) for _ in range(length))


def _name(draw: Callable[[], float]) -> str:
    """Return two or three syllables with a capital: Tavo, Nerimu."""
    count = 2 + int(draw() * 2)
    name = "".join(_one_of("bdfgklmnprstvz", draw) + _one_of("aeiou", draw) for _ in range(count))
    return name.capitalize()


def _one_of(things: Sequence[T], draw: Callable[[], float]) -> T:
    return things[int(draw() * len(things))]


def _distinct(make: Callable[[], str], count: int) -> list[str]:
    """Return the first `count` different texts of `make`."""
    found: dict[str, None] = {}
    while len(found) < count:
        found.setdefault(make())
    return list(found)


def _shuffled(things: Iterable[T], draw: Callable[[], float]) -> list[T]:
    """Return `things` in random order; `random.shuffle` may differ between Python versions."""
    out = list(things)
    for last in range(len(out) - 1, 0, -1):
        other = int(draw() * (last + 1))
        out[last], out[other] = out[other], out[last]
    return out
