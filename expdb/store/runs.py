"""Run folders: which there are, and what each says; JSON and journals only, never Parquet or YAML.

Invariant: a damaged file of a run is named in `Run.problems` and the rest is read; only a run
without a readable `run.json` is an error, since nothing says what it is. A run whose process lives
is never called crashed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from expdb.errors import Corrupt, NotFound, Unsupported
from expdb.model import (
    FORMAT,
    SEED_LIMIT,
    Attempt,
    Objective,
    Run,
    RunAt,
    RunId,
    RunState,
    Series,
)
from expdb.store import attempts as attempt_files
from expdb.store import control, fields, points, series, writers
from expdb.store.checkpoints import being_written, read_manifests
from expdb.store.fields import Wrong
from expdb.store.files import read_json
from expdb.store.folders import Version as Version
from expdb.store.folders import (
    names_in,
    run_folder,
    run_in,
    scan_stamps,
    version_in,
    version_of,
)
from expdb.store.ids import is_id
from expdb.store.journal import JournalReader
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.records import RunMarks, read_evals, read_events, read_marks, with_marks
from expdb.store.status import Status, read_status

ENDED = frozenset([RunState.FINISHED, RunState.FAILED, RunState.PREEMPTED])
"""States that the training process itself recorded: nothing is left in a journal."""

MODES: tuple[Literal["min", "max"], ...] = ("min", "max")
READINGS: tuple[Literal["last", "best", "mean_last_3"], ...] = ("last", "best", "mean_last_3")
SILENT = "the process died without a word"
GONE = "points that series.json counts are in no file any more"


def run_dirs(root: Path) -> Iterator[tuple[str, Path, Version]]:
    """Yield (id, folder, version) of every folder that is named as a run; see `scan_stamps`."""
    for experiment, stamps in scan_stamps(root):
        for stamp in stamps:
            run = run_in(stamp)
            yield run, Path(run_folder(experiment, run)), version_in(stamp)


def find_run_dir(root: Path, run: str) -> Path:
    """Return the folder of a run by its full id.

    Raises:
        NotFound: the store has no such run.
    """
    if is_id(run):
        for experiment in names_in(root):
            path = root / experiment / f"run={run}"
            if experiment.startswith("exp=") and path.is_dir():
                return path
    raise NotFound(f"the store has no run `{run}`", hint="expdb ls")


def require_here(layout: RunLayout) -> None:
    """Refuse to go on with a run that was removed since its folder was found.

    Raises:
        NotFound: it is there no more.
    """
    if not layout.root.is_dir():
        raise NotFound(
            f"run {layout.id} was removed from the store meanwhile",
            hint=f"bring it back: expdb rm --restore {layout.id}",
        )


def read_run(run_dir: Path, *, store_root: Path) -> Run:
    """Return a run as its folder describes it, with the state that is true now.

    Raises:
        NotFound: the folder has no run.json (it is being made, or is not expdb's).
        Corrupt: run.json is damaged.
        Unsupported: a newer expdb wrote it.
    """
    return read_listed(run_dir, store_root=store_root)[0]


def read_listed(run_dir: Path, *, store_root: Path) -> tuple[Run, Mapping[str, int]]:
    """Return a run as `read_run`, and the files that its status.json lists, with their sizes."""
    layout = RunLayout(run_dir)
    version = version_of(run_dir)
    identity = read_identity(layout)
    problems: list[str] = []
    numbers = attempt_files.numbers(layout)
    attempts = _attempts(layout, numbers, problems)
    status, state, why = _state(layout, numbers, StoreLayout(store_root).meta, problems)
    is_over = not (state.is_alive or state is RunState.LOST) and status.state != "running"
    names = {number: names_in(layout.attempt(number)) for number in numbers}
    found = _series(layout, state, names, problems, is_over=is_over)
    if is_over:
        problems.extend(_part_problems(run_dir, status))
    for number in numbers:
        problems.extend(points.kept_problems(layout, number, names[number]))
    # One look instead of one for each of what most runs lack; nothing seen is no look at all.
    here = names_in(run_dir)
    marks = read_marks(layout, problems) if _may_have(here, layout.marks) else RunMarks()
    known = _identity(layout, identity)
    if known["seed"] is not None and abs(known["seed"]) >= SEED_LIMIT:
        known["seed"] = None
        problems.append("the seed in run.json has over 38 digits, and is left out")
    run = Run(
        **known,
        state=state,
        reason=why,
        ended_at_ms=status.ended_at_ms if not state.is_alive else None,
        last_step=_last_step(status, found, state),
        max_steps=status.max_steps,
        path=_below(run_dir, store_root),
        attempts=attempts,
        series=found,
        checkpoints=read_manifests(layout, problems=problems)
        if _may_have(here, layout.checkpoints)
        else (),
        saving=being_written(layout) if state.is_alive else (),
        evals=read_evals(layout, problems) if _may_have(here, layout.evals) else (),
        events=with_marks(read_events(layout, problems), marks)
        if _may_have(here, layout.events)
        else (),
        labels=marks.labels,
        notes=marks.notes,
        num_dropped=status.num_dropped,
        bytes=sum(status.files.values()),
        problems=tuple(problems),
        host=attempt_files.host(layout, numbers[-1]) if numbers else "",
        version=version,
    )
    return run, status.files


def _may_have(here: Sequence[str], path: Path) -> bool:
    return not here or path.name in here


def _below(run_dir: Path, store_root: Path) -> str:
    """Return the folder relative to the store; as texts, which is ten times as fast."""
    folder, above = str(run_dir), f"{store_root}/"
    if folder.startswith(above):
        return folder.removeprefix(above)
    return run_dir.relative_to(store_root).as_posix()


def state_now(run_dir: Path, *, store_root: Path) -> tuple[RunState, str]:
    """Return the state of a run that is true now, and the reason, without a look at its points."""
    layout = RunLayout(run_dir)
    numbers = attempt_files.numbers(layout)
    _, state, why = _state(layout, numbers, StoreLayout(store_root).meta, [])
    return state, why


def read_identity(layout: RunLayout) -> dict[str, Any]:
    """Return run.json.

    Raises:
        NotFound, Corrupt, Unsupported: as `read_run`.
    """
    try:
        data = read_json(layout.run_json)
    except (FileNotFoundError, NotADirectoryError):
        require_here(layout)
        raise NotFound(f"{layout.root.name} has no run.json", hint="expdb ls") from None
    found = data.get("format", 0)
    if isinstance(found, int) and found > FORMAT:
        raise Unsupported(
            f"run {layout.id} has format {found}; this expdb reads formats up to {FORMAT}",
            hint=f"it needs expdb {data.get('needs', 'of a later version')} or newer",
        )
    if data.get("id") != layout.id or not isinstance(data.get("experiment") or None, str):
        raise Corrupt(
            f"run.json of {layout.root.name} does not name it", hint=f"the file: {layout.run_json}"
        )
    return data


def identity_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run that run.json holds.

    Raises:
        Wrong: a field is missing, or of another type.
    """
    return {
        "id": RunId(fields.text(data, "id")),
        "experiment": fields.text(data, "experiment"),
        "variant": fields.text(data, "variant", ""),
        "seed": _seed(data.get("seed")),
        "created_at_ms": fields.whole(data, "created_at_ms", 0),
        "parent": _run_at(data, "parent"),
        "fork": _run_at(data, "fork"),
        "objective": _objective(data),
        "digest": fields.text(data, "digest", ""),
        "canonical": fields.text(data, "canonical", "{}"),
        "settings": fields.mapping(data, "settings", {}),
        "command": fields.texts(data, "command", ()),
        "study": fields.maybe_text(data, "study") or "",
    }


def _identity(layout: RunLayout, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run that its run.json holds."""
    try:
        return identity_of(data)
    except Wrong as error:
        raise Corrupt(
            f"run.json of {layout.root.name} is damaged at `{error}`",
            hint=f"the file: {layout.run_json}",
        ) from error


def _seed(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise Wrong("seed")
    return value


def _run_at(data: Mapping[str, Any], name: str) -> RunAt | None:
    if data.get(name) is None:
        return None
    found = fields.mapping(data, name)
    return RunAt(run=fields.text(found, "run"), step=fields.maybe_whole(found, "step"))


def _objective(data: Mapping[str, Any]) -> Objective | None:
    if data.get("objective") is None:
        return None
    found = fields.mapping(data, "objective")
    return Objective(
        metric=fields.text(found, "metric"),
        mode=fields.choice(found, "mode", MODES, "min"),
        reading=fields.choice(found, "reading", READINGS, "last"),
    )


def _attempts(layout: RunLayout, numbers: list[int], problems: list[str]) -> tuple[Attempt, ...]:
    out: list[Attempt] = []
    for number in numbers:
        try:
            out.append(attempt_files.read_pin(layout, number))
        except Corrupt as error:
            problems.append(f"attempt {number}: {error.message}")
            out.append(attempt_files.unpinned(number, "its pin.json is damaged"))
    return tuple(out)


def _state(
    layout: RunLayout, numbers: list[int], meta: Path, problems: list[str]
) -> tuple[Status, RunState, str]:
    """Return the status with the state and reason that are true now."""
    why = SILENT
    try:
        status = read_status(layout)
    except FileNotFoundError:
        status = Status()
    except Corrupt as error:
        problems.append(error.message)
        status, why = Status(), "status.json is damaged"
    newest = numbers[-1] if numbers else 0
    stored = status, RunState(status.state), status.reason
    if status.state != "running" and newest <= status.attempt:
        return stored
    life = attempt_files.life(layout, newest, store_meta=meta) if newest else "dead"
    if life == "alive":
        held = control.is_held(layout, newest)
        return status, RunState.PAUSED if held else RunState.RUNNING, ""
    if status.state != "running":
        return stored
    if life == "lost":
        return status, RunState.LOST, "another host, no sign for 10 minutes"
    try:
        again = read_status(layout)
    except (FileNotFoundError, Corrupt):
        again = status
    if again.state != "running":  # it ended well between our two looks
        return again, RunState(again.state), again.reason
    return status, RunState.CRASHED, why if numbers else "it ended before its first attempt"


def _series(
    layout: RunLayout,
    state: RunState,
    names: Mapping[int, list[str]],
    problems: list[str],
    *,
    is_over: bool,
) -> dict[str, Series]:
    """Return the summaries: series.json and, of a run that did not end, what stands behind it.

    A seal writes series.json before the journal goes, so the journals are opened first. `names` are
    those of the files of each attempt, oldest first.
    """
    numbers = list(names)
    opened: list[JournalReader] = []
    if state not in ENDED and numbers:
        opened = points.open_journals(layout, numbers[-1], 0, problems=problems)
    try:
        book = series.load(layout.series_json)
    except Corrupt as error:
        problems.append(error.message)
        book = series.SeriesBook()
    if is_over:
        problems += _doubts(layout, numbers, book, is_there=layout.series_json.exists())
    if state not in ENDED and numbers:
        _count_journals(layout, numbers[-1], book, opened, problems)
    if numbers:
        writers.add_ranks(layout, numbers[-1], book, problems, names[numbers[-1]])
    return dict(book.series)


def _part_problems(run_dir: Path, status: Status) -> Iterator[str]:
    """Yield what is wrong with the sealed parts of a run that is over, by their sizes alone."""
    for name, size in status.files.items():
        if name.startswith("points/"):
            try:
                found = os.stat(f"{run_dir}/{name}").st_size  # noqa: PTH116 - for every part of every run
            except (OSError, ValueError):
                yield f"{name} is missing"
                continue
            if found != size:
                yield f"{name} has {found:,} of {size:,} bytes"


def _doubts(
    layout: RunLayout, numbers: list[int], book: series.SeriesBook, *, is_there: bool
) -> list[str]:
    """Return why the summaries of a run that is over cannot be relied on."""
    if book.unordered:
        return [f"series.json: {len(book.unordered)} series were not counted from all their points"]
    if not is_there and points.has_parts(layout, numbers):
        return ["series.json is missing, and there are points to count"]
    return []


def _count_journals(
    layout: RunLayout,
    attempt: int,
    book: series.SeriesBook,
    opened: Sequence[JournalReader],
    problems: list[str],
) -> None:
    after = book.through(attempt, 0)
    values = points.values_in(opened, after_seq=after, problems=problems)
    columns = points.as_columns(values)
    for key, column in columns.items():
        book.update(key, column.steps, column.values)
    if after and not columns and points.is_short(layout, attempt, after):
        problems.append(GONE)


def _last_step(status: Status, found: Mapping[str, Series], state: RunState) -> int | None:
    if state in ENDED and status.last_step is not None:
        return status.last_step
    steps = [item.last_step for item in found.values()]
    if status.last_step is not None:
        steps.append(status.last_step)
    return max(steps, default=None)
