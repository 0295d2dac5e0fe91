"""The forms of log lines that are known by name, and those that a person describes.

    nanogpt    step:1/6200 train_loss:3.2 val_loss:3.1 train_time:213ms step_avg:213.66ms
    llmc       s:1 trl:3.2 tel:3.1 lr:0.0001 norm:0.24
    pairs      any line with a step and `name: number` or `name=number`

Invariant: a pattern takes a line or does not; a value that is not a number (`nan`) is one all the
same, so it never costs the other values of its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from expdb.errors import BadInput
from expdb.text import plain

MAX_SEARCHED: Final = 20_000
"""Longer lines are cut before a pattern looks at them."""

Pairs = list[tuple[str, str]]


class Line(NamedTuple):
    """What a pattern read in a line: the step, and name -> text of a number."""

    step: str
    pairs: Pairs


Pattern = Callable[[str], Line | None]

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
NANOGPT_HEAD = re.compile(r"step:(\d+)/\d+ ")
FIELD = re.compile(rf"(\w+):({NUMBER})(ms|s)?(?= |$)", re.IGNORECASE)
NANOGPT: Final = {
    "train_loss": "train/loss", "val_loss": "val/loss", "step_avg": "train/step",
    "train_time": "train/elapsed",
}  # fmt: skip
LLMC_HEAD = re.compile(r"s:(\d+) ")
LLMC: Final = {"trl": "train/loss", "tel": "val/loss", "lr": "train/lr", "norm": "train/grad_norm"}
STEP = re.compile(
    r"\b(?:global[_ ]step|step|steps|iteration|iter|update)\b\s*[:=#]?\s*\[?(\d+)\b", re.IGNORECASE
)
PAIR = re.compile(
    rf"([A-Za-z_][\w./@-]*)\s?[:=]\s*({NUMBER})(ms|s|%)?(?=$|[\s,;|)\]}}])", re.IGNORECASE
)
UNITS: Final = {"": "", "ms": "_ms", "s": "_s", "%": "_pct"}
STEP_WORDS: Final = frozenset(["step", "steps", "global_step", "iteration", "iter", "update"])


def nanogpt(text: str) -> Line | None:
    """Read a line of a nanoGPT speed run; a time keeps its unit, in its name."""
    head = NANOGPT_HEAD.match(text)
    if head is None:
        return None
    found = FIELD.finditer(text, head.end())
    return Line(head[1], [(NANOGPT.get(m[1], m[1]) + _unit(m[3]), m[2]) for m in found])


def llmc(text: str) -> Line | None:
    """Read a line of llm.c's main log."""
    head = LLMC_HEAD.match(text)
    if head is None:
        return None
    found = FIELD.finditer(text, head.end())
    return Line(head[1], [(LLMC.get(match[1], match[1]), match[2]) for match in found])


def pairs(text: str) -> Line | None:
    """Read any line with a step and named numbers; the unit of a number joins its name."""
    step = STEP.search(text)
    if step is None:
        return None
    found = [
        (match[1] + _unit(match[3]), match[2])
        for match in PAIR.finditer(text)
        if match[1].lower() not in STEP_WORDS
    ]
    return Line(step[1], found) if found else None


def _unit(said: str | None) -> str:
    return UNITS[(said or "").lower()]


BUILT_IN: Final[Mapping[str, Pattern]] = {"nanogpt": nanogpt, "llmc": llmc, "pairs": pairs}
"""In the order in which they are tried on a file."""


def by_name(name: str) -> Pattern:
    """Return a built-in pattern.

    Raises:
        BadInput: none is called so.
    """
    if name not in BUILT_IN:
        known = " ".join(BUILT_IN)
        raise BadInput(
            f"no pattern is called {plain(name)}", hint=f"patterns: {known}; your own: --regex"
        )
    return BUILT_IN[name]


def by_regex(text: str) -> Pattern:
    """Return a pattern of named groups; `step` is one of them, `__` in a name stands for `/`.

    Raises:
        BadInput: it is no regular expression, or has no group `step`, or no other one.
    """
    try:
        regex = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadInput(f"--regex is no regular expression: {error}") from error
    names = [name for name in regex.groupindex if name != "step"]
    if "step" not in regex.groupindex or not names:
        raise BadInput(
            "--regex needs a group named step, and one for each metric",
            hint=r"--regex 'step (?P<step>\d+) loss (?P<train__loss>\S+)'",
        )

    def read(line: str) -> Line | None:
        match = regex.search(line)
        if match is None or match["step"] is None:
            return None
        found = [(name.replace("__", "/"), match[name]) for name in names if match[name]]
        return Line(match["step"], found)

    return read


def best_of(sample: Iterator[str]) -> str:
    """Return the name of the pattern that reads most of these lines, empty when none does."""
    lines = list(sample)
    counts = {
        name: sum(1 for line in lines if (found := read(line)) and found.pairs)
        for name, read in BUILT_IN.items()
    }
    best = max(counts, key=lambda name: counts[name])  # the first of equals
    return best if counts[best] else ""
