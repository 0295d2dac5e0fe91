"""Event files for TensorBoard: a folder of runs, with the tags that its users know.

Invariant: everything that can be refused is refused before the first folder is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from expdb import tfevents
from expdb.errors import BadInput, Refused
from expdb.report.export import rows
from expdb.report.new_file import new_file, require_outside
from expdb.store.layout import encode_name
from expdb.text import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from expdb.model import Run
    from expdb.query.export import Export
    from expdb.store.store import Store

TAGS: Final[Mapping[str, str]] = {
    "train/loss": "Loss/train",
    "val/loss": "Loss/val",
    "train/token_acc": "TokenAcc/train",
    "val/token_acc": "TokenAcc/val",
    "train/grad_norm": "Grad/global_norm",
}
"""Name of a metric -> its tag, but where the run has a metric of that name; others keep theirs."""


def write_runs(out: Path, export: Export, store: Store, *, force: bool) -> None:
    """Write one event file for each run, in a folder `<experiment>-<id>` of `out`.

    Raises:
        Refused: a file is there, and `force` was not given; or the place is in the store.
        BadInput: `out` is a file, its folder does not exist, or it cannot be written.
    """
    files = [(run, _file(out, run)) for run, _ in export.records()]
    require_outside(out, store)
    if out.exists() and not out.is_dir():
        raise BadInput(f"{plain(str(out))} is a file, and --tensorboard wants a folder")
    if not out.resolve().parent.is_dir():
        raise BadInput(f"the folder of {plain(str(out))} does not exist")
    for _, file in files:
        require_outside(file, store)
        if file.exists() and not force:
            raise Refused(
                f"{plain(str(file))} is there already", hint="replace it: the same with --force"
            )
    for run, file in files:
        _make(out)
        _make(file.parent)
        with new_file(file) as opened:
            for event in _events(run, export.points(run.id)):
                opened.write(tfevents.record(tfevents.encoded(event)))


def _file(out: Path, run: Run) -> Path:
    # The name is the same each time, so that an export again replaces a file and adds none.
    folder = out / f"{encode_name(run.experiment)}-{run.id}"
    return folder / f"events.out.tfevents.{run.created_at_ms // 1000}.expdb"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        where = plain(str(folder))
        raise BadInput(f"the folder {where} cannot be made: {error.strerror}") from error


def _events(run: Run, points: pa.Table) -> Iterator[tfevents.Event]:
    """Yield the version, then the values of each step, those of one moment together."""
    yield tfevents.Event(run.created_at_ms / 1000, 0, {}, tfevents.VERSION)
    own = set(points["key"].unique().to_pylist())
    tags = {key: tag for key, tag in TAGS.items() if tag not in own}
    order = [(name, "ascending") for name in ("step", "time", "key", "rank")]
    at: tuple[int, int] | None = None
    values: dict[str, float] = {}
    for _, key, step, time, value, _, _ in rows(points.sort_by(order)):
        if at != (step, time):
            if at is not None:
                yield tfevents.Event(at[1] / 1000, at[0], values)
            at, values = (step, time), {}
        # The lowest rank comes first, and stands for the run.
        values.setdefault(tags.get(key, key), value)
    if at is not None:
        yield tfevents.Event(at[1] / 1000, at[0], values)
