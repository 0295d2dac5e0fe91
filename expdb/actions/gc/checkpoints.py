"""Which checkpoints `gc` sets aside: those beyond what each run declares that it keeps.

Invariant: the rule is the one of training. What it is not sure about stays: a run that is alive, or
written by another process; a checkpoint that is damaged, named, or evaluated after its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from expdb.actions.gc.results import GcItem
from expdb.actions.live import LIVE
from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.model import Run
from expdb.query.target import values_of
from expdb.store import checkpoints, writers
from expdb.store.layout import RunLayout
from expdb.store.protected import Needed, needed_steps
from expdb.store.retention import Candidate, Keep, keep_of, reasons
from expdb.store.runs import read_run
from expdb.text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A rule of the command line in place of the declared one; None leaves a part as declared."""

    last: int | None = None
    best: int | None = None

    def on(self, keep: Keep) -> Keep:
        """Return the rule that holds."""
        last = keep.last if self.last is None else self.last
        return replace(keep, last=last, best=keep.best if self.best is None else self.best)


def checkpoint_items(
    reader: Reader, runs: list[str], rule: Override, problems: list[str]
) -> Iterator[GcItem]:
    """Yield every checkpoint of the runs, with why it stays or goes.

    Raises:
        Corrupt: a ref is damaged, so that it cannot be known what is needed.
    """
    needed = needed_steps(reader.store)
    has_some = {row[0] for row in reader.rows("SELECT DISTINCT run FROM checkpoints")}
    for run in runs:
        if run in has_some:
            try:
                yield from _of_run(reader, reader.run(run), rule, needed.get(run, {}))
            except ExpdbError as error:
                problems.append(error.message)


def still_goes(reader: Reader, item: GcItem, rule: Override, needed: Needed) -> str:
    """Return why a checkpoint that was to go stays, looked at again under its run's lock; else "".

    Raises:
        ExpdbError: the run cannot be read any more.
    """
    run = read_run(reader.run_dir(item.run), store_root=reader.store.root)
    for one in _of_run(reader, run, rule, needed.get(run.id, {})):
        if one.step == item.step:
            return "" if one.goes else one.why
    return "it is gone"


def _of_run(
    reader: Reader, run: Run, rule: Override, needed: Mapping[int, str]
) -> Iterator[GcItem]:
    layout = RunLayout(reader.store.root / run.path)
    found = checkpoints.read_manifests(layout)
    keep = rule.on(keep_of(_declared(run)))
    whole = _why_all_stay(run, layout)
    kept = {one.step: whole for one in found}
    if not whole:
        mode = "min" if run.objective is None else run.objective.mode
        values: dict[int, float] = {}
        damaged = ""
        if run.objective is not None:
            values, damaged = values_of(reader, run, run.objective.metric)
        candidates = [
            Candidate(
                step=one.step,
                attempt=one.attempt,
                value=values.get(one.step),
                complete=one.complete,
            )
            for one in found
        ]
        if damaged:
            kept = {one.step: plain(damaged) for one in found}
        else:
            named = {**_evaluated(run), **{step: plain(why) for step, why in needed.items()}}
            kept = reasons(candidates, keep=keep, mode=mode, protected=named)
    for one in found:
        yield GcItem(
            kind="checkpoint",
            what=f"{run.id}@{one.step}",
            name=run.name,
            path=layout.checkpoint(one.step).relative_to(reader.store.root).as_posix(),
            bytes=one.bytes,
            goes=one.step not in kept,
            why=kept.get(one.step, f"beyond keep: {keep.words()}"),
            run=run.id,
            step=one.step,
        )


def _declared(run: Run) -> Mapping[str, object]:
    keep = run.settings.get("keep", {})
    return keep if isinstance(keep, Mapping) else {}


def _why_all_stay(run: Run, layout: RunLayout) -> str:
    if run.state in LIVE:
        return f"its run is {run.state}"
    if writers.others(layout)[0]:
        return "another process writes to its run"
    return ""


def _evaluated(run: Run) -> dict[int, str]:
    """Return the checkpoints that were evaluated after their run had ended.

    What a run evaluates while it trains belongs to the step, and needs no weights any more.
    """
    ended = run.ended_at_ms
    return {
        one.step: f"eval {plain(one.task)}"
        for one in run.evals
        if ended is not None and one.created_at_ms > ended
    }
