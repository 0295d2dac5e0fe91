from __future__ import annotations

import math
from dataclasses import replace

import pytest

from expdb.index.reader import Reader, open_reader
from expdb.model import RunState
from expdb.query.noise import classify, noise_of
from expdb.query.results import Outcome
from expdb.query.runs import run_rows
from expdb.store.store import Store
from tests.query.conftest import cast_run
from tests.query.made import make_run, write_run


def test_a_declaration_counts_first(cast: Reader) -> None:
    noise = noise_of(cast, cast_run("k3f9x2m7qd"), "val/loss")
    assert noise is not None
    assert (noise.sd, noise.source) == (0.008, "declared")
    assert round(noise.band, 3) == 0.022
    row = next(row for row in run_rows(cast) if row.id == "k3f9x2m7qd")
    assert noise_of(cast, row, "val/loss") == noise


def test_the_newest_run_compared_decides_what_is_declared(cast: Reader) -> None:
    old = cast_run("k3f9x2m7qd")
    new = cast_run("g2z8r5n1fs", settings={"noise": {"val/loss": 0.5}})
    assert noise_of(cast, old, "val/loss", new).sd == 0.5  # type: ignore[union-attr]
    assert noise_of(cast, new, "val/loss", old).sd == 0.5  # type: ignore[union-attr]


@pytest.mark.parametrize("declared", [math.nan, math.inf, -1.0, "0.008", True, None])
def test_a_declaration_that_is_no_size_is_not_one(store: Store, declared: object) -> None:
    run = make_run("k3f9x2m7qd", value=1.8, settings={"noise": {"val/loss": declared}})
    write_run(store, run)
    with open_reader(store) as reader:
        assert noise_of(reader, run, "val/loss") is None


def test_three_finished_seeds_measure_it(store: Store) -> None:
    plain = {"settings": {"seed_key": "seed"}}
    for run in ("k3f9x2m7qd", "m8c2v5tq1n"):
        write_run(store, cast_run(run, **plain))
    failed = cast_run("p2x7d9wk4h", state=RunState.FAILED, **plain)
    write_run(store, failed)
    first = cast_run("k3f9x2m7qd", **plain)
    with open_reader(store) as reader:
        assert noise_of(reader, first, "val/loss") is None
    write_run(store, cast_run("p2x7d9wk4h", **plain))
    # Neither an older run of the same seed, nor another config under the same name counts.
    older = cast_run("k3f9x2m7qd", minutes=0, points={"val/loss": {300: 99.0}}, **plain)
    write_run(store, replace(older, id="aaaaaaaaaa"))  # type: ignore[arg-type]
    other = make_run(
        "bbbbbbbbbb",
        seed=3,
        value=50.0,
        config={"seed": 3, "optim": {"lr": 1.0}},
        minutes=9999,
        **plain,
    )
    write_run(store, other)
    with open_reader(store) as reader:
        noise = noise_of(reader, first, "val/loss")
        assert noise is not None
        assert (noise.source, noise.num_seeds) == ("measured", 3)
        assert noise.sd == pytest.approx(0.008)
        assert noise_of(reader, other, "val/loss") is None
        assert noise_of(reader, other, "val/loss", first) == noise


@pytest.mark.parametrize(
    ("delta", "mode", "band", "outcome"),
    [
        (-0.1, "min", 0.022, Outcome.BETTER),
        (0.1, "min", 0.022, Outcome.WORSE),
        (0.1, "max", 0.022, Outcome.BETTER),
        (-0.1, "max", 0.022, Outcome.WORSE),
        (0.022, "min", 0.022, Outcome.NO_DIFFERENCE),
        (0.0, "max", 0.0, Outcome.NO_DIFFERENCE),
        (-0.1, "min", None, Outcome.INCONCLUSIVE),
        (math.nan, "min", 0.022, Outcome.INCONCLUSIVE),
        (math.inf, "min", 0.022, Outcome.INCONCLUSIVE),
    ],
)
def test_an_outcome_follows_direction_and_band(
    delta: float, mode: str, band: float | None, outcome: Outcome
) -> None:
    assert classify(delta, mode, band) is outcome
