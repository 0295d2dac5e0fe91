"""What an import did, by file and by run."""

from __future__ import annotations

from dataclasses import dataclass

from expdb.importers.found import Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """One run that a file holds."""

    id: str
    experiment: str
    seed: int | None
    is_new: bool
    """False where the store had it already: then nothing was written."""
    unused: tuple[str, ...] = ()
    """The options that say something else than the run that is there already: `--objective`."""
    num_points: int = 0
    num_keys: int = 0
    first_step: int | None = None
    last_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """One file that was read."""

    name: str
    """The name of the file, without its folder."""
    sha256: str
    format: str
    pattern: str
    """The pattern that a log was read by; empty for other formats."""
    runs: tuple[ImportedRun, ...]
    skipped: tuple[Skipped, ...] = ()
