"""The text of one run, for `show` and for the terminal app."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from expdb import digest
from expdb.model import RunState
from expdb.query.kin import against_base
from expdb.query.media import RunMedia, media_of
from expdb.report import shown
from expdb.report.digest_shown import DigestParts
from expdb.report.style import Style
from expdb.store.last_words import read_traceback
from expdb.store.layout import RunLayout

if TYPE_CHECKING:
    from expdb.index.reader import Reader
    from expdb.model import Run
    from expdb.query.compare_results import Comparison
    from expdb.query.gates import GateResult
    from expdb.query.kin import Base


def lines_of_run(
    reader: Reader,
    run: Run,
    style: Style,
    *,
    path: str,
    media: RunMedia | None = None,
    based: tuple[Base, Comparison] | None = None,
    all: bool = False,
) -> list[str]:
    """Return the lines of `expdb show`; media and base of the run are read here unless given."""
    refs = [ref.name for ref in reader.refs.values() if ref.run == run.id]
    base, against = based or against_base(reader, run) or (None, None)
    return shown.render(
        run,
        style,
        path=path,
        num_keys=len(digest.flatten(run.canonical)),
        refs=refs,
        parent=base.parent if base is not None else None,
        against=against,
        last_words=_last_words(reader, run),
        media=media or media_of(reader.run_dir(run.id)),
        gates=gates_of(reader, run),
        all=all,
    )


def gates_of(reader: Reader, run: Run) -> Sequence[GateResult]:
    """Return how a run stands to the gates that it declares."""
    if not run.settings.get("gates"):
        return ()
    from expdb.query.gates import own_results

    return own_results(reader, [run.id]).get(run.id, ())


def _last_words(reader: Reader, run: Run) -> list[str]:
    if run.state is not RunState.FAILED or run.attempt is None:
        return []
    folder = RunLayout(reader.store.root / run.path).attempt(run.attempt.number)
    return read_traceback(folder / "log.txt")


def digest_parts(run: Run) -> DigestParts:
    """Return what the digest of a run is about, under the rules of its own settings."""
    rules: Any = run.settings.get("digest") or {}
    ignore = tuple(str(name) for name in rules.get("ignore") or ())
    seed_key = str(run.settings.get("seed_key") or "seed")
    flat = digest.flatten(run.canonical)
    kept = digest.counted(run.canonical, ignore=ignore, seed_key=seed_key)
    left_out = [key for key in flat if key not in kept and key != seed_key]
    return DigestParts(
        digest=run.digest,
        num_counted=len(kept),
        seed_key=seed_key,
        seed=flat.get(seed_key),
        has_seed=seed_key in flat,
        ignored=tuple(left_out),
        stubbed={key: str(value) for key, value in flat.items() if isinstance(value, digest.Stub)},
        secret=tuple(key for key, value in flat.items() if isinstance(value, digest.Secret)),
        today=digest.digest(run.canonical, ignore=ignore, seed_key=seed_key),
    )
