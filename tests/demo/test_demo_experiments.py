"""Every experiment of conf/exp, for a few steps: train.py itself, in this process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from hydra import compose, initialize_config_dir

from expdb.model import Run
from expdb.store.points import read_series
from expdb.store.runs import read_run, run_dirs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TINY = [
    "loop=fast", "loop.max_steps=4", "loop.eval_every=null", "loop.cloze_items=4",
    "data.batch_size=4", "model.d=16", "model.hidden=16", "model.layers=1", "model.seq_len=96",
    "schedule.warmup_steps=0", "expdb.print=quiet",
]  # fmt: skip


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_train_script", ROOT / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Trained:
    """One finished run."""

    run: Run
    points: dict[str, dict[int, float]]
    """Key -> step -> value."""


@pytest.fixture(scope="module")
def train(
    script: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Trained]]:
    top = tmp_path_factory.mktemp("experiments")

    def trained(*overrides: str) -> Trained:
        store = top / "runs"
        with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
            config = compose("train", [*TINY, f"expdb.store={store}", *overrides])
        script.train(config)
        runs = [read_run(folder, store_root=store) for _, folder, _ in run_dirs(store)]
        run = max(runs, key=lambda run: run.created_at_ms)
        points: dict[str, dict[int, float]] = {}
        for row in read_series(store / run.path).to_pylist():
            points.setdefault(row["key"], {})[row["step"]] = row["value"]
        return Trained(run, points)

    with pytest.MonkeyPatch.context() as patch:
        # The code to pin is a file of this folder, which is in no repository.
        patch.setattr(sys.modules["__main__"], "__file__", str(top / "train.py"), raising=False)
        yield trained


@pytest.fixture(scope="module")
def baseline(train: Callable[..., Trained]) -> Trained:
    return train("+exp=baseline")


def lr_of(trained: Trained) -> list[float]:
    return [trained.points["train/lr"][step] for step in range(4)]


def losses_of(trained: Trained) -> list[float]:
    return [trained.points["train/loss"][step] for step in range(4)]


def test_the_learning_rates_of_the_schedules(
    train: Callable[..., Trained], baseline: Trained
) -> None:
    assert lr_of(baseline) == pytest.approx([3e-3] * 4)
    assert lr_of(train("+exp=exp01")) == pytest.approx([1e-2] * 4)
    cosine = lr_of(train("+exp=exp02_cosine", "schedule.hold=0.5"))
    assert cosine == pytest.approx([3e-3, 3e-3, 3e-3, 3e-3 * 0.55])
    jump = train("+exp=exp03_lr_jump", "schedule.jump_at=1", "schedule.jump_steps=2")
    assert lr_of(jump) == pytest.approx([3e-3, 9e-2, 9e-2, 3e-3])
    same = [a == b for a, b in zip(losses_of(jump), losses_of(baseline), strict=True)]
    assert same == [True, True, False, False]


def test_a_fault_in_the_data_is_of_its_batches(
    train: Callable[..., Trained], baseline: Trained
) -> None:
    plain = losses_of(baseline)
    bad = losses_of(train("+exp=exp04_bad_batch", "data.bad_batches=[1,2]"))
    around = ("data.bad_batches=[1,2]", "data.skip_batches=[1,2]")
    skipped = losses_of(train("+exp=exp04_bad_batch", *around))
    assert bad[0] == skipped[0] == plain[0]
    assert len({bad[1], skipped[1], plain[1]}) == 3


def test_too_little_text_is_what_exp05_trains_on(train: Callable[..., Trained]) -> None:
    run = train("+exp=exp05_overfit").run
    assert run.attempts[0].data["train"]["bytes"] == 12_000
    assert run.attempts[0].data["val"]["bytes"] > 30_000


def test_the_mixture_of_experts_logs_its_load(
    train: Callable[..., Trained], baseline: Trained
) -> None:
    points = train("+exp=exp06_moe", "model.layers=2").points
    loads = {key: set(found) for key, found in points.items() if key.startswith("train/moe_")}
    assert set(loads) == {
        "train/moe_max_vio", "train/moe_load_max_pct", "train/moe_load_min_pct",
        "train/moe_num_dead", "train/moe_bias_max",
    }  # fmt: skip
    assert set(map(frozenset, loads.values())) == {frozenset(range(4))}
    assert points["train/moe_bias_max"][0] == pytest.approx(0.01)
    assert 12.5 < points["train/moe_load_max_pct"][3] <= 50.0
    assert not any("/moe_" in key for key in baseline.points)


def test_a_mix_has_a_loss_and_a_count_for_each_source(train: Callable[..., Trained]) -> None:
    points = train("data=mix", "model=dense_qk_norm").points
    sources = ("pydoc", "arithmetic", "instructions", "brackets", "facts")
    counts = [points[f"train/num_sequences/{name}"][4] for name in sources]
    assert sum(counts) == 4 * 4
    assert all(points[f"val/{name}/loss"][4] > 4.0 for name in sources)
