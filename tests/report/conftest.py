"""The cast: one store of 15 runs made in memory, and a check of lines against golden files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from expdb.model import (
    Attempt,
    Checkpoint,
    Eval,
    Event,
    Objective,
    Pin,
    Run,
    RunAt,
    RunId,
    RunState,
    Series,
)
from expdb.query.results import Delta, Noise, Outcome, RunRow
from expdb.report.style import Style

GOLDEN = Path(__file__).parent.parent / "golden"
NOW_MS = 1_800_000_000_000
MIN, HOUR, DAY = 60, 3600, 86_400
LOSS = Objective(metric="val/loss")
NAN = float("nan")
NOISE = Noise(metric="val/loss", sd=0.008, source="declared")
FIRST, SECOND = "4be1f02" + "a" * 33, "7c1e88a" + "b" * 33
SNAPSHOT = "0d57b3a" + "c" * 33
ENVIRONMENT = {"python": "3.11.7", "torch": "2.13.0+cpu", "torch.num_threads": "1"}

# id, experiment, variant, seed, state, age in seconds, step, value, value step, cloze, parent
CAST: tuple[tuple[Any, ...], ...] = (
    ("x5j2v8c0ke", "exp05_overfit", "", 0, "running", 20, 180, 2.583, 150, 0.380),
    ("g2z8r5n1fs", "exp07_zloss", "", 0, "finished", 41 * MIN, 300, 1.839, 300, 0.468),
    ("c7t3b9q5nv", "exp09_fp16", "", 0, "failed", 3 * HOUR, 50, NAN, 50, None),
    ("a9m4y7h3pq", "exp06_moe", "", 1, "crashed", 4 * HOUR, 170, 2.271, 150, 0.365),
    ("v8k2h5d3rt", "exp06_moe", "", 0, "finished", 4 * HOUR, 300, 1.852, 300, 0.463),
    ("b3w9t6d1zm", "exp04_bad_batch", "", 0, "finished", 5 * HOUR, 300, 1.859, 300, 0.455),
    ("e7s5g2p0va", "exp03_lr_jump", "", 0, "finished", 5 * HOUR, 300, 2.871, 300, 0.245),
    ("f0n6k8y5wj", "exp02_cosine", "", 2, "finished", 22 * HOUR, 300, 1.851, 300, 0.470),
    ("q9r1c4h7tb", "exp02_cosine", "", 1, "finished", 22 * HOUR, 300, 1.868, 300, 0.478),
    ("d6v3m9s2xk", "exp02_cosine", "", 0, "finished", 22 * HOUR, 300, 1.841, 300, 0.465),
    ("h4q8z1rn6c", "exp01", "+optim.lr=0.005", 0, "finished", DAY, 300, 1.902, 300, 0.448),
    ("t1h6y3cz8r", "exp01", "", 0, "finished", 2 * DAY, 300, 2.028, 300, 0.430),
    ("p2x7d9wk4h", "baseline", "", 2, "finished", 2 * DAY, 300, 1.856, 300, 0.473),
    ("m8c2v5tq1n", "baseline", "", 1, "finished", 2 * DAY, 300, 1.864, 300, 0.490),
    ("k3f9x2m7qd", "baseline", "", 0, "finished", 2 * DAY, 300, 1.848, 300, 0.460),
)
BASELINE_AT = {150: 2.284, 300: 1.848}
DIRTY = ("x5j2v8c0ke", "g2z8r5n1fs")


def _delta(run: str, value: float, at: int, step: int) -> Delta | None:
    if run == "k3f9x2m7qd" or value != value:
        return None
    difference = round(value - BASELINE_AT[at], 6)
    if at != step or step != 300:
        return Delta(value=difference, outcome=None, at_step=at)
    if abs(difference) <= NOISE.band:
        return Delta(value=difference, outcome=Outcome.NO_DIFFERENCE)
    return Delta(value=difference, outcome=Outcome.WORSE if difference > 0 else Outcome.BETTER)


def make_row(entry: tuple[Any, ...]) -> RunRow:
    run, experiment, variant, seed, state, age_s, step, value, at, cloze = entry
    return RunRow(
        id=run,
        experiment=experiment,
        variant=variant,
        seed=seed,
        state=RunState(state),
        reason="train/loss is NaN since step 40" if state == "failed" else "",
        created_at_ms=NOW_MS - age_s * 1000,
        ended_at_ms=None if state == "running" else NOW_MS - age_s * 1000 + 35_000,
        last_step=step,
        max_steps=300,
        parent=None,
        digest="v1:" + "0" * 64,
        commit=SECOND if run in DIRTY else FIRST,
        dirty=run in DIRTY,
        objective=LOSS,
        value=value,
        value_step=at,
        refs=("baseline",) if run == "k3f9x2m7qd" else (),
        is_head=run == "k3f9x2m7qd",
        delta=_delta(run, value, at, step),
        metrics={} if cloze is None else {"eval/cloze/acc": cloze},
    )


def make_series(key: str, last: float, count: int = 7, **change: Any) -> Series:
    made = Series(
        key=key,
        count=count,
        nonfinite=0,
        first_step=0,
        first=last,
        last_step=300,
        last=last,
        min_step=300,
        min=last,
        max_step=300,
        max=last,
    )
    return replace(made, **change)


def make_run(run: str, **change: Any) -> Run:
    """Return a finished run of the cast with its metrics; `change` replaces fields."""
    row = next(make_row(entry) for entry in CAST if entry[0] == run)
    pin = Pin(
        commit=FIRST, branch="main", tree="9d41c7e" + "d" * 33, used={f"{n}": "" for n in range(14)}
    )
    if row.dirty:
        pin = replace(pin, commit=SECOND, dirty=True, num_edits=3, snapshot=SNAPSHOT)
    made = Run(
        id=RunId(row.id),
        experiment=row.experiment,
        variant=row.variant,
        seed=row.seed,
        state=row.state,
        reason=row.reason,
        created_at_ms=row.created_at_ms,
        ended_at_ms=row.ended_at_ms,
        last_step=row.last_step,
        max_steps=300,
        path=f"exp={row.experiment}/run={row.id}",
        parent=RunAt(run="k3f9x2m7qd") if run != "k3f9x2m7qd" else None,
        fork=None,
        objective=LOSS,
        digest="v1:6f20a9b1c4d7e08852b1f63a9c7741de20b95f0e6ac318d4470b9e21f5a6c833",
        canonical='{"optim":{"lr":0.01}}',
        settings={"noise": {"val/loss": 0.008}},
        command=("python", "train.py", f"+exp={row.experiment}"),
        attempts=(
            Attempt(
                number=1,
                pin=pin,
                environment=ENVIRONMENT,
                data={
                    "train": {
                        "digest": "sha256:5b0e91c2" + "0" * 56,
                        "name": "pydoc",
                        "bytes": 434_049,
                    },
                    "val": {
                        "digest": "sha256:5b0e91c2" + "0" * 56,
                        "name": "pydoc",
                        "bytes": 32_222,
                    },
                },
            ),
        ),
        series={"val/loss": make_series("val/loss", row.value or NAN)},
        checkpoints=(
            Checkpoint(step=200, bytes=4_600_000, complete=True),
            Checkpoint(step=300, bytes=4_600_000, complete=True),
        ),
        evals=(
            Eval(
                id="ev1",
                task="cloze",
                step=300,
                metrics={"acc": row.metrics.get("eval/cloze/acc", 0.0)},
                n=400,
                items_digest="sha256:77",
            ),
        ),
        events=(Event(step=112, severity="warn", rule="grad_spike", message="z 7.1 > 6"),),
    )
    return replace(made, **change)


@pytest.fixture
def cast() -> SimpleNamespace:
    """The cast and its makers."""
    return SimpleNamespace(
        rows=tuple(make_row(entry) for entry in CAST),
        run=make_run,
        series=make_series,
        noise=NOISE,
        loss=LOSS,
        now_ms=NOW_MS,
        first=FIRST,
        second=SECOND,
    )


@pytest.fixture
def screen() -> Any:
    """Return a maker of styles: a terminal of 100 columns without colour unless told."""

    def make(**change: Any) -> Style:
        base = Style(color=False, ascii=False, width=100, terminal=True, now_ms=NOW_MS)
        return base._replace(**change)

    return make


@pytest.fixture
def golden() -> Any:
    """Compare lines with a golden file byte by byte; EXPDB_UPDATE_GOLDEN=1 rewrites it."""

    def check(name: str, lines: list[str]) -> None:
        path = GOLDEN / name
        made = "".join(f"{line}\n" for line in lines).encode()
        if os.environ.get("EXPDB_UPDATE_GOLDEN") == "1":
            path.write_bytes(made)
        assert made.decode() == path.read_bytes().decode()

    return check
