"""What a person says of a file, checked before the file is opened.

Invariant: nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from expdb.errors import BadInput
from expdb.importers import patterns
from expdb.importers.config import assigned
from expdb.importers.found import Reading
from expdb.model import Objective
from expdb.store.layout import encode_name
from expdb.store.new_run import require_name, require_seed
from expdb.text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person says of a file that does not say it itself."""

    reading: Reading = field(default_factory=Reading)
    experiment: str = ""
    seed: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    objective: Objective | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    """Name in the file -> name of the metric."""

    @property
    def says_what_it_is(self) -> bool:
        """Whether anything is said that our own exports say themselves."""
        return bool(self.experiment or self.config or self.objective) or self.seed is not None


def wanted_of(
    *,
    format: str | None = None,
    pattern: str | None = None,
    regex: str | None = None,
    step: str | None = None,
    experiment: str | None = None,
    seed: int | None = None,
    config: Sequence[str] = (),
    objective: str | None = None,
    names: Sequence[str] = (),
) -> Wanted:
    """Return what the words of a command line say.

    Raises:
        BadInput: a word does not have its form, or there is no such pattern.
    """
    if pattern:
        patterns.by_name(pattern)
    if regex:
        patterns.by_regex(regex)
    if experiment is not None:
        encode_name(experiment)
    made = assigned(config)
    said = made.get("seed")
    if seed is None and isinstance(said, int) and not isinstance(said, bool):
        seed = said
    if seed is not None:
        require_seed(seed)
    return Wanted(
        reading=Reading(
            format=format or "", pattern=pattern or "", regex=regex or "", step=step or ""
        ),
        experiment=experiment or "",
        seed=seed,
        config=made,
        objective=None if objective is None else _objective(objective),
        names=_renamed(names),
    )


def _objective(word: str) -> Objective:
    metric, colon, mode = word.rpartition(":")
    if colon and mode in ("min", "max"):
        require_name(metric)
        return Objective(metric=metric, mode="max" if mode == "max" else "min")
    require_name(word)
    return Objective(metric=word)


def _renamed(words: Sequence[str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for word in words:
        old, equals, new = word.partition("=")
        if not (old and equals):
            raise BadInput(f"--rename {plain(word)} is not of the form OLD=NEW")
        if old in out:
            raise BadInput(f"--rename {plain(old)} is given twice")
        require_name(new)
        out[old] = new
    return out
