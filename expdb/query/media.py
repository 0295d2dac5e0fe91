"""The media and artifacts of one run, read from its folder: only `show` asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from expdb.errors import ExpdbError
from expdb.store.artifacts import Artifact, read_artifacts
from expdb.store.layout import RunLayout
from expdb.store.media import MediaKey, media_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMedia:
    """What a run has beside its points."""

    keys: tuple[MediaKey, ...] = ()
    """By kind (texts, histograms, tables, images), then by key."""
    artifacts: tuple[Artifact, ...] = ()
    """In the order in which they were added."""
    problems: tuple[str, ...] = ()
    """The damaged files that were left out."""


def media_of(run_dir: Path) -> RunMedia:
    """Return what a run has of media and artifacts."""
    problems: list[str] = []
    try:
        keys = media_keys(run_dir, problems=problems)
    except ExpdbError as error:  # a newer expdb wrote a journal
        problems.append(error.message)
        keys = ()
    artifacts = read_artifacts(RunLayout(run_dir), problems)
    return RunMedia(keys=keys, artifacts=artifacts, problems=tuple(problems))
