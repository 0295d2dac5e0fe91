"""How much of a validation text is in the training text: whole documents, and runs of n words.

A document counts when a run of n words of it (13, as GPT-3's authors took) is in training text, or
all of it is; one of fewer words counts when all of it is a training document. Words are runs of
letters and digits in lower case; a letter of Chinese or Japanese is a word of its own.

Runs are compared by a 64-bit hash, and where that is equal, word by word: the count is exact. In
memory are the validation runs alone; training text is read through once.

Source: T. Brown et al., arXiv 2005.14165 appendix C (13 words, lower case, no punctuation).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expdb.actions.probe.documents import Document

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = 13
SHOWN = 5
MULTIPLIER = 0x9E3779B97F4A7C15
SINGLE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
WORD = re.compile(rf"[{SINGLE}]|[^\W{SINGLE}]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A validation document that is in training text, and where."""

    val: str
    train: str
    kind: str
    """`exact` or `words`."""
    words: str
    """The words that both have, of a run; the beginning of an exact one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What was found."""

    n: int
    num_train: int
    num_val: int
    num_exact: int
    """Validation documents that are training documents, word by word."""
    num_words: int
    """Others that share a run of n words."""
    num_short: int
    """Documents of fewer words than n, of which only the whole was looked for."""
    examples: tuple[Example, ...]

    @property
    def num_found(self) -> int:
        """Validation documents that are in training text."""
        return self.num_exact + self.num_words

    @property
    def share(self) -> float:
        """The share of validation documents that are in training text."""
        return self.num_found / self.num_val if self.num_val else 0.0


@dataclass(slots=True)
class _Val:
    document: str
    words: list[str]
    found: Example | None = None


@dataclass(slots=True)
class _Words:
    """Words as 64-bit numbers, each worked out once."""

    known: dict[str, int] = field(default_factory=dict)

    def of(self, words: Sequence[str]) -> NDArray[Any]:
        """Return the numbers of words: uint64 [len(words)]."""
        import numpy as np

        known = self.known
        if len(known) > 2_000_000:
            known.clear()
        for word in words:
            if word not in known:
                digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8)
                known[word] = int.from_bytes(digest.digest(), "little")
        return np.fromiter((known[word] for word in words), dtype=np.uint64, count=len(words))


def words_of(text: str) -> list[str]:
    """Return the words of a text."""
    return WORD.findall(text.lower())


def overlap(
    train: Iterable[Document], val: Iterable[Document], *, n: int = WORDS, shown: int = SHOWN
) -> Overlap:
    """Return how many validation documents are in training text; `shown` of them as examples."""
    import numpy as np

    numbers = _Words()
    vals = [_Val(document=one.place, words=words_of(one.text)) for one in val]
    whole: dict[tuple[str, ...], list[int]] = {}
    for index, one in enumerate(vals):
        whole.setdefault(tuple(one.words), []).append(index)
    runs, owners, places = _runs_of(vals, numbers, n)
    num_train = 0
    for document in train:
        num_train += 1
        words = words_of(document.text)
        for index in whole.get(tuple(words), ()):
            vals[index].found = _example("exact", vals[index], document, words[:n])
        if len(words) < n or not len(runs):
            continue
        own = _rolled(numbers.of(words), n)
        at = np.searchsorted(runs, own)
        at[at == len(runs)] = 0
        for start in np.flatnonzero(runs[at] == own).tolist():
            _mark(vals, runs, owners, places, int(at[start]), document, words[start : start + n])
    found = [one.found for one in vals if one.found is not None]
    exact = sum(one.kind == "exact" for one in found)
    return Overlap(
        n=n,
        num_train=num_train,
        num_val=len(vals),
        num_exact=exact,
        num_words=len(found) - exact,
        num_short=sum(len(one.words) < n for one in vals),
        examples=tuple(found[:shown]),
    )


def _runs_of(
    vals: Sequence[_Val], numbers: _Words, n: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return all runs of n words, sorted, with the document and the place each is of."""
    import numpy as np

    runs, owners, places = [], [], []
    for index, one in enumerate(vals):
        if len(one.words) >= n:
            own = _rolled(numbers.of(one.words), n)
            runs.append(own)
            owners.append(np.full(len(own), index, dtype=np.int64))
            places.append(np.arange(len(own), dtype=np.int64))
    if not runs:
        nothing = np.empty(0, dtype=np.uint64)
        return nothing, nothing.astype(np.int64), nothing.astype(np.int64)
    joined = np.concatenate(runs)
    order = np.argsort(joined, kind="stable")
    return joined[order], np.concatenate(owners)[order], np.concatenate(places)[order]


def _rolled(words: NDArray[Any], n: int) -> NDArray[Any]:
    """Return a hash of each run of n words: uint64 [len(words) - n + 1]."""
    import numpy as np

    size = len(words) - n + 1
    total = np.zeros(size, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for place in range(n):
            total = total * np.uint64(MULTIPLIER) + words[place : place + size]
    return total


def _mark(
    vals: Sequence[_Val],
    runs: NDArray[Any],
    owners: NDArray[Any],
    places: NDArray[Any],
    first: int,
    document: Document,
    words: list[str],
) -> None:
    """Note a run of training words in every validation document that has it."""
    at = first
    while at < len(runs) and runs[at] == runs[first]:
        one, start = vals[int(owners[at])], int(places[at])
        if one.found is None and one.words[start : start + len(words)] == words:
            one.found = _example("words", one, document, words)
        at += 1


def _example(kind: str, one: _Val, document: Document, words: Sequence[str]) -> Example:
    return Example(val=one.document, train=document.place, kind=kind, words=" ".join(words))
