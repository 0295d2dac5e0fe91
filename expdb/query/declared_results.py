"""What is declared, as values.

A declared run is one that should exist: an experiment, with the values of `hydra.sweeper.params`.

Invariant: nothing here needs Hydra.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from expdb.query.entry import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRun:
    """One run that should exist."""

    variant: str
    """As runs have it: of swept keys besides the seed; empty for the experiment itself."""
    seed: int | None
    overrides: tuple[str, ...]
    """What the experiment's command has to say besides: `seed=1`."""
    canonical: str
    """The whole config, as `expdb.digest` writes it."""
    digest: str
    """Under the rules of this config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a composed config was made of."""

    files: tuple[Path, ...] = ()
    variables: tuple[str, ...] = ()
    """Environment variables that the files read; those of secrets change no config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One experiment file."""

    name: str
    fault: str = ""
    """Why it cannot be trained; it declares no run then."""
    runs: tuple[DeclaredRun, ...] = ()
    ignore: tuple[str, ...] = ()
    seed_key: str = "seed"
    read_from: Mapping[str, str] = field(default_factory=dict)
    """Dotted key -> the environment variable that its value comes from."""
    sources: Sources | None = None
    """None where it is not known what the answer hangs on: it must be composed each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All that one entry declares."""

    entry: Entry
    group: str
    """The config group of experiments: `exp`."""
    experiments: tuple[Declared, ...]
    """By name."""
    num_composed: int = 0
    """How many had to be composed now."""
