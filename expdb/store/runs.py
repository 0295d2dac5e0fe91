"""Run folders: which there are, and what each says; JSON and journals only, never Parquet or YAML.

Invariant: a damaged file of a run is named in `Run.problems` and the rest is read; only a run without a readable
`run.json` is an error, since nothing says what it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, ExpdbError, NotFound, Unsupported
from expdb.model import (
    FORMAT,
    Attempt,
    Eval,
    Event,
    Objective,
    Run,
    RunAt,
    RunId,
    RunState,
    Series,
)
from expdb.store import attempts as attempt_files
from expdb.store import points, series
from expdb.store.checkpoints import read_manifests
from expdb.store.files import read_json
from expdb.store.ids import is_id
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.status import Status, read_status

Version = tuple[int, int, int]
ENDED = frozenset([RunState.FINISHED, RunState.FAILED, RunState.PREEMPTED])
"""States that the training process itself recorded: nothing is left in a journal."""


def run_dirs(root: Path) -> Iterator[tuple[str, Path, Version]]:
    """Yield (id, folder, version) of every folder that is named as a run.

    The version is (mtime_ns, inode, size) of status.json, (0, 0, 0) when it has none yet.
    """
    try:
        experiments = [entry for entry in os.scandir(root) if entry.name.startswith("exp=")]
    except FileNotFoundError:
        return
    for experiment in experiments:
        try:
            entries = list(os.scandir(experiment.path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            run = entry.name.removeprefix("run=")
            if run == entry.name or not is_id(run):
                continue
            yield run, Path(entry.path), version_of(entry.path)


def version_of(run_dir: str | Path) -> Version:
    """Return what changes whenever the run changes."""
    try:
        stat = os.stat(f"{run_dir}/status.json")  # noqa: PTH116 - 10,000 times a listing
    except (FileNotFoundError, NotADirectoryError):
        return (0, 0, 0)
    return (stat.st_mtime_ns, stat.st_ino, stat.st_size)


def find_run_dir(root: Path, run: str) -> Path:
    """Return the folder of a run by its full id.

    Raises:
        NotFound: the store has no such run.
    """
    for name, path, _ in run_dirs(root):
        if name == run:
            return path
    raise NotFound(f"the store has no run `{run}`", hint="expdb ls")


def read_run(run_dir: Path, *, store_root: Path) -> Run:
    """Return a run as its folder describes it, with the state that is true now.

    Raises:
        NotFound: the folder has no run.json (it is being made, or is not expdb's).
        Corrupt: run.json is damaged.
        Unsupported: a newer expdb wrote it.
    """
    layout = RunLayout(run_dir)
    version = version_of(run_dir)
    identity = read_identity(layout)
    problems: list[str] = []
    attempts = _attempts(layout, problems)
    status = _status(layout, problems)
    state, why = _state(layout, status, attempts, StoreLayout(store_root).meta)
    book = _book(layout, state, attempts, problems)
    labels, notes = _marks(layout, problems)
    settings = identity.get("settings", {})
    return Run(
        id=RunId(str(identity["id"])),
        experiment=str(identity["experiment"]),
        variant=str(identity.get("variant", "")),
        seed=identity.get("seed"),
        state=state,
        reason=why,
        created_at_ms=int(identity.get("created_at_ms", 0)),
        ended_at_ms=status.ended_at_ms,
        last_step=_last_step(status, book.series, state),
        max_steps=status.max_steps,
        path=run_dir.relative_to(store_root).as_posix(),
        parent=_run_at(identity.get("parent")),
        fork=_run_at(identity.get("fork")),
        objective=_objective(identity.get("objective")),
        digest=str(identity.get("digest", "")),
        canonical=str(identity.get("canonical", "{}")),
        settings=settings if isinstance(settings, dict) else {},
        command=tuple(str(item) for item in identity.get("command", ())),
        attempts=attempts,
        series=dict(book.series),
        checkpoints=read_manifests(layout),
        evals=_evals(layout, problems),
        events=_events(layout, problems),
        labels=labels,
        notes=notes,
        num_dropped=status.num_dropped,
        bytes=sum(status.files.values()),
        problems=tuple(problems),
        version=version,
    )


def read_identity(layout: RunLayout) -> dict[str, Any]:
    """Return run.json.

    Raises:
        NotFound, Corrupt, Unsupported: as `read_run`.
    """
    try:
        data = read_json(layout.run_json)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{layout.root.name} has no run.json", hint="expdb ls") from None
    if data.get("format", 0) > FORMAT:
        raise Unsupported(
            f"run {layout.id} has format {data['format']}; this expdb reads formats up to {FORMAT}",
            hint=f"it needs expdb {data.get('needs', 'of a later version')} or newer",
        )
    if data.get("id") != layout.id or not data.get("experiment"):
        raise Corrupt(
            f"run.json of {layout.root.name} does not name it", hint=f"the file: {layout.run_json}"
        )
    return data


def _attempts(layout: RunLayout, problems: list[str]) -> tuple[Attempt, ...]:
    out: list[Attempt] = []
    for number in attempt_files.numbers(layout):
        try:
            out.append(attempt_files.read_pin(layout, number))
        except ExpdbError as error:
            problems.append(error.message)
    return tuple(out)


def _status(layout: RunLayout, problems: list[str]) -> Status:
    try:
        return read_status(layout)
    except FileNotFoundError:
        return Status()
    except (Corrupt, TypeError) as error:
        problems.append(str(error))
        return Status()


def _state(
    layout: RunLayout, status: Status, attempts: tuple[Attempt, ...], meta: Path
) -> tuple[RunState, str]:
    if status.state != "running":
        return RunState(status.state), status.reason
    if not attempts:
        return RunState.CRASHED, "it ended before its first attempt"
    match attempt_files.life(layout, attempts[-1].number, store_meta=meta):
        case "alive":
            return RunState.RUNNING, ""
        case "lost":
            return RunState.LOST, "another host, no sign for 10 minutes"
    return RunState.CRASHED, "the process died without a word"


def _book(
    layout: RunLayout, state: RunState, attempts: tuple[Attempt, ...], problems: list[str]
) -> series.SeriesBook:
    try:
        book = series.load(layout.series_json)
    except (Corrupt, KeyError, TypeError, ValueError) as error:
        problems.append(f"series.json is damaged ({error})")
        book = series.SeriesBook()
    if state in ENDED or not attempts:
        return book
    number = attempts[-1].number
    for rank in points.journals(layout, number):
        after = book.through_seq.get(rank, 0)
        values = points.live_values(layout, number, rank, after_seq=after, problems=problems)
        for key, column in points.as_columns(values).items():
            book.update(key, column.steps, column.values)
    return book


def _last_step(status: Status, found: Mapping[str, Series], state: RunState) -> int | None:
    if state in ENDED and status.last_step is not None:
        return status.last_step
    steps = [item.last_step for item in found.values()]
    if status.last_step is not None:
        steps.append(status.last_step)
    return max(steps, default=None)


def _run_at(data: Any) -> RunAt | None:
    if not isinstance(data, dict) or "run" not in data:
        return None
    return RunAt(run=str(data["run"]), step=data.get("step"))


def _objective(data: Any) -> Objective | None:
    if not isinstance(data, dict) or "metric" not in data:
        return None
    return Objective(
        metric=str(data["metric"]),
        mode=data.get("mode", "min"),
        reading=data.get("reading", "last"),
    )


def _lines(path: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a jsonl file; a torn last line is left out, other damage is named."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            if number < len(lines):
                problems.append(f"{path.name}: line {number} is damaged")
            continue
        if isinstance(value, dict):
            yield value


def _marks(layout: RunLayout, problems: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    labels: dict[str, None] = {}
    notes: list[str] = []
    for item in _lines(layout.marks, problems):
        match item.get("kind"):
            case "label":
                labels[str(item.get("text"))] = None
            case "unlabel":
                labels.pop(str(item.get("text")), None)
            case "note":
                notes.append(str(item.get("text")))
    return tuple(labels), tuple(notes)


def _events(layout: RunLayout, problems: list[str]) -> tuple[Event, ...]:
    return tuple(
        Event(
            step=int(item.get("step", 0)),
            severity=item.get("severity", "info"),
            rule=str(item.get("rule", "")),
            message=str(item.get("message", "")),
            created_at_ms=int(item.get("created_at_ms", 0)),
        )
        for item in _lines(layout.events, problems)
    )


def _evals(layout: RunLayout, problems: list[str]) -> tuple[Eval, ...]:
    if not layout.evals.is_dir():
        return ()
    out: list[Eval] = []
    for path in sorted(layout.evals.glob("*.json")):
        if path.name.startswith(".tmp-"):
            continue
        try:
            data = read_json(path)
            out.append(
                Eval(
                    id=str(data["id"]),
                    task=str(data["task"]),
                    step=int(data["step"]),
                    metrics={str(k): float(v) for k, v in data["metrics"].items()},
                    n=data.get("n"),
                    shots=data.get("shots"),
                    scorer=str(data.get("scorer", "")),
                    items_digest=str(data.get("items_digest", "")),
                    created_at_ms=int(data.get("created_at_ms", 0)),
                )
            )
        except (Corrupt, KeyError, TypeError, ValueError, AttributeError):
            problems.append(f"evals/{path.name} is damaged")
    return tuple(sorted(out, key=lambda item: (item.step, item.task, item.created_at_ms)))


