"""Training and validation of one file of JSON lines, with every stratum in both as in the whole.

    DIR/train.jsonl  DIR/val.jsonl     the lines of the file, byte for byte, in its order
    DIR/split.json                     seed, share, counts of each stratum, SHA-256 of the file

The validation share of a stratum is off by less than one item. Which items are taken hangs on the
seed, the name of the stratum and the order of its lines alone, so that one seed takes the same.

Invariant: nothing that exists is written over; split.json is written last.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.actions.probe.documents import json_lines
from expdb.errors import BadInput, Refused
from expdb.store.files import encode_json, reason, write_bytes
from expdb.text import plain

NAMES = ("train.jsonl", "val.jsonl", "split.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One value of the key."""

    name: str
    num: int
    num_val: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A split that was written."""

    folder: Path
    file: Path
    by: str | None
    share: float
    seed: int
    sha256: str
    strata: tuple[Stratum, ...]

    @property
    def num(self) -> int:
        """Items in all."""
        return sum(one.num for one in self.strata)

    @property
    def num_val(self) -> int:
        """Items of the validation side."""
        return sum(one.num_val for one in self.strata)

    def record(self) -> dict[str, Any]:
        """Return what split.json holds."""
        return {
            "file": self.file.name,
            "sha256": self.sha256,
            "by": self.by,
            "share": self.share,
            "seed": self.seed,
            "train": self.num - self.num_val,
            "val": self.num_val,
            "strata": [
                {"name": one.name, "train": one.num - one.num_val, "val": one.num_val}
                for one in self.strata
            ],
        }


def split(file: Path, folder: Path, *, by: str | None, share: float, seed: int) -> Split:
    """Write both sides of a file of JSON lines into a folder.

    Raises:
        BadInput: the file is none, a line lacks the key, or one side would be empty.
        Refused: one of the files exists, or cannot be written.
    """
    if file.suffix != ".jsonl":
        raise BadInput(f"{plain(file.name)} is no file of JSON lines (.jsonl)")
    taken = [name for name in NAMES if os.path.lexists(folder / name)]
    if taken:
        raise Refused(
            f"{plain(str(folder / taken[0]))} exists already", hint="name another folder: --out DIR"
        )
    lines, names = _read(file, by)
    chosen = choose(names, share=share, seed=seed)
    if not 0 < len(chosen) < len(lines):
        raise BadInput(f"{share:g} of {len(lines):,} items leaves one side without any")
    made = Split(
        folder=folder,
        file=file,
        by=by,
        share=share,
        seed=seed,
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        strata=_counted(names, chosen),
    )
    sides = (
        [line for index, line in enumerate(lines) if index not in chosen],
        [line for index, line in enumerate(lines) if index in chosen],
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, side in zip(NAMES, sides, strict=False):
            write_bytes(folder / name, "".join(f"{line}\n" for line in side).encode())
        write_bytes(folder / NAMES[2], encode_json(made.record()))
    except OSError as error:
        raise Refused(f"{plain(str(folder))} cannot be written: {reason(error)}") from error
    return made


def choose(strata: Sequence[str], *, share: float, seed: int) -> set[int]:
    """Return the items of the validation side: so large a share of all and, give or take less than
    one, of each stratum.
    """
    members: dict[str, list[int]] = {}
    for index, name in enumerate(strata):
        members.setdefault(name, []).append(index)
    exact = {name: share * len(items) for name, items in members.items()}
    counts = {name: math.floor(value) for name, value in exact.items()}
    left = round(share * len(strata)) - sum(counts.values())
    by_rest = sorted(exact, key=lambda name: (counts[name] - exact[name], name))
    for name in by_rest[: max(0, left)]:
        counts[name] += 1
    chosen: set[int] = set()
    for name, items in members.items():
        chosen.update(random.Random(f"{seed}:{name}").sample(items, counts[name]))
    return chosen


def _read(file: Path, by: str | None) -> tuple[list[str], list[str]]:
    """Return the lines of a file, and the stratum of each."""
    lines, names = [], []
    try:
        for number, data, line in json_lines(file):
            lines.append(line)
            names.append(_stratum(file, number, data, by))
    except OSError as error:
        raise BadInput(f"{plain(file.name)} cannot be read: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{plain(file.name)} is no UTF-8 text") from error
    return lines, names


def _stratum(file: Path, number: int, data: Mapping[str, Any], by: str | None) -> str:
    if by is None:
        return ""
    value = data.get(by)
    if not isinstance(value, (str, int)):
        raise BadInput(
            f"{plain(file.name)} line {number} has no {plain(by)} that is a word or a whole number"
        )
    return str(value)


def _counted(names: Sequence[str], chosen: set[int]) -> tuple[Stratum, ...]:
    counts: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        pair = counts.setdefault(name, [0, 0])
        pair[0] += 1
        pair[1] += index in chosen
    return tuple(
        Stratum(name=name, num=num, num_val=num_val)
        for name, (num, num_val) in sorted(counts.items())
    )
