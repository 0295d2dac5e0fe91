"""The cast: one store of 15 runs, on disk, with the numbers that the screens show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from expdb.index.reader import Reader, open_reader
from expdb.model import Eval, Event, Run, RunAt, RunState
from expdb.store.files import write_json
from expdb.store.store import Store
from tests.query.made import make_run, make_store, write_run

BASELINE_CURVE = {0: 5.587, 50: 2.670, 100: 2.470, 150: 2.284, 200: 2.120, 250: 1.913, 300: 1.848}
NOISE = {"seed_key": "seed", "noise": {"val/loss": 0.008}}
DATA = {"train": "sha256:aaaa0000" + "0" * 56, "val": "sha256:5b0e91c2" + "0" * 56}
HOUR = 60

# id, experiment, variant, seed, state, hours ago, val/loss curve, eval/cloze/acc
CAST = (
    ("x5j2v8c0ke", "exp05_overfit", "", 0, "running", 0.01, {0: 5.5, 100: 2.7, 150: 2.583}, 0.380),
    ("g2z8r5n1fs", "exp07_zloss", "", 0, "finished", 0.7, {0: 5.5, 300: 1.839}, 0.468),
    ("c7t3b9q5nv", "exp09_fp16", "", 0, "failed", 3, {0: 5.5, 50: math.nan}, None),
    ("a9m4y7h3pq", "exp06_moe", "", 1, "crashed", 4, {0: 5.5, 150: 2.271}, 0.365),
    ("v8k2h5d3rt", "exp06_moe", "", 0, "finished", 4.5, {0: 5.5, 300: 1.852}, 0.463),
    ("b3w9t6d1zm", "exp04_bad_batch", "", 0, "finished", 5, {0: 5.5, 300: 1.859}, 0.455),
    ("e7s5g2p0va", "exp03_lr_jump", "", 0, "finished", 5.5, {0: 5.5, 300: 2.871}, 0.245),
    ("f0n6k8y5wj", "exp02_cosine", "", 2, "finished", 22, {0: 5.5, 300: 1.851}, 0.470),
    ("q9r1c4h7tb", "exp02_cosine", "", 1, "finished", 22.1, {0: 5.5, 300: 1.868}, 0.478),
    ("d6v3m9s2xk", "exp02_cosine", "", 0, "finished", 22.2, {0: 5.5, 300: 1.841}, 0.465),
    ("h4q8z1rn6c", "exp01", "+optim.lr=0.005", 0, "finished", 24, {0: 5.5, 300: 1.902}, 0.448),
    ("t1h6y3cz8r", "exp01", "", 0, "finished", 48, {0: 5.5, 300: 2.028}, 0.430),
    ("p2x7d9wk4h", "baseline", "", 2, "finished", 49, {0: 5.5, 300: 1.856}, 0.473),
    ("m8c2v5tq1n", "baseline", "", 1, "finished", 49.1, {0: 5.5, 300: 1.864}, 0.490),
    ("k3f9x2m7qd", "baseline", "", 0, "finished", 49.2, BASELINE_CURVE, 0.460),
)
LR = {"exp01": 0.01, "exp01+optim.lr=0.005": 0.005}
TREES = {"g2z8r5n1fs": "5" * 40, "x5j2v8c0ke": "5" * 40}


def cast_run(run: str, **more: object) -> Run:
    """Return one run of the cast."""
    found = next(entry for entry in CAST if entry[0] == run)
    _, experiment, variant, seed, state, hours, curve, acc = found
    name = experiment + variant
    config = {"seed": seed, "optim": {"lr": LR.get(name, 0.003)}, "loop": {"device": "cpu"}}
    config["schedule"] = {"kind": "cosine" if experiment == "exp02_cosine" else "multi_step"}
    points: dict[str, dict[int, float]] = {"val/loss": curve}
    if not math.isnan(list(curve.values())[-1]):
        points["train/loss"] = {0: 5.5, max(curve): list(curve.values())[-1] - 0.2}
        points["train/tokens_per_s"] = {0: 18_000.0, max(curve): 18_420.0}
    evals: tuple[Eval, ...] = ()
    if acc is not None:
        last = max(curve)
        points["eval/cloze/acc"] = {last: acc}
        evals = (
            Eval(
                id="e1",
                task="cloze",
                step=last,
                metrics={"acc": acc},
                n=400,
                items_digest="sha256:i",
            ),
        )
    warn = Event(step=112, severity="warn", rule="grad_spike", message="z 7.1 > 6")
    values: dict[str, object] = dict(
        experiment=experiment, variant=variant, seed=seed, state=RunState(state), config=config,
        points=points, minutes=int((100 - hours) * HOUR), settings=NOISE, data=DATA, evals=evals,
        events=(warn,) if run == "t1h6y3cz8r" else (), tree=TREES.get(run, "9d41c7e" + "0" * 33),
    )  # fmt: skip
    return make_run(run, **{**values, **more})  # type: ignore[arg-type]


def write_cast(store: Store, *, but: tuple[str, ...] = ()) -> None:
    """Write the folders of the cast."""
    for run, *_ in CAST:
        if run in but:
            continue
        points = {"val/loss": BASELINE_CURVE} if run == "k3f9x2m7qd" else None
        if run == "a9m4y7h3pq":
            points = {"val/loss": {0: 5.5, 150: 2.271}}
        write_run(store, cast_run(run), points=points)


def set_ref(
    store: Store, name: str, run: str, *, kind: str = "ref", step: int | None = None
) -> None:
    """Write the file of a ref."""
    body = {
        "format": 1,
        "needs": "0.1.0",
        "name": name,
        "kind": kind,
        "run": run,
        "step": step,
        "op": "b0v4k8s2m1",
    }
    write_json(store.layout.ref(name), body)


@pytest.fixture(scope="session")
def cast_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = make_store(tmp_path_factory.mktemp("cast") / "runs")
    write_cast(store)
    set_ref(store, "baseline", "k3f9x2m7qd")
    return store


@pytest.fixture
def cast(cast_store: Store) -> Iterator[Reader]:
    """A reader of the cast, with the ref `baseline`; not to be written to."""
    with open_reader(cast_store) as reader:
        yield reader


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return make_store(tmp_path / "runs")


HEAD = RunAt(run="k3f9x2m7qd", step=300)
