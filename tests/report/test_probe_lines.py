"""What the measuring probes say, as text and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from expdb.actions.probe.declared_data import DeclaredData
from expdb.actions.probe.estimate import estimate
from expdb.actions.probe.measure import Measured, ProbePlan
from expdb.actions.probe.overlap import Example, Overlap
from expdb.actions.probe.split import Split, Stratum
from expdb.report import probe_data, probe_lr, probe_memory, probes
from expdb.report.json import dumps

HOSTILE = "evil\x1b[31m\u202ename"
PLAN = ProbePlan(argv=("python", "train.py", "+exp=exp01", "name=it's"), cwd=Path(), name="exp01")
THROUGHPUT = {
    "kind": "throughput", "device": "cpu", "accum": 1, "updates": 50, "tokens": 76_800,
    "seconds": 4.194, "tokens_per_s": 18_311.87, "median_s": 0.0836, "p95_s": 0.0912,
    "wait_share": 0.003, "warm_up": 5, "updates_that_compiled": 0, "steps_s": [0.0836] * 50,
}  # fmt: skip
LOADER = {
    "kind": "loader", "device": "cuda:0", "accum": 1, "updates": 20, "step_s": 0.06,
    "data_s": 0.05, "batch_s": 0.05, "batch_p95_s": 0.0512, "compute_s": 0.01,
    "wait_share": 0.83, "verdict": "data-bound", "loader": "DataLoader",
    "is_torch": True, "workers": 0, "prefetch": None, "cores": 16,
    "suggested": {
        "needed": 6, "possible": 8, "enough": True, "num_workers": 6, "pin_memory": True,
        "prefetch_factor": 2, "persistent_workers": True,
    },
}  # fmt: skip
MEMORY = {
    "kind": "memory", "device": "cpu", "accum": 1, "num_params": 381_600, "num_trained": 381_600,
    "dtypes": {"float32": 381_600}, "precision": "fp32", "parameters": 1_526_400, "buffers": 73_728,
    "gradients": 1_526_400, "optimizer": 3_052_904, "ema": 0, "activations": 43_900_000,
    "optimizers": [{"name": "AdamW", "momentum": 0.0, "amsgrad": False, "num_params": 381_600}],
    "peak": 422_000_000, "reserved": None, "device_bytes": None, "retries": None,
}  # fmt: skip
ON_GPU = {
    **MEMORY, "precision": "bfloat16 autocast", "device": "cuda:0", "peak": 76_000_000_000,
    "reserved": 78_400_000_000, "device_bytes": 80_000_000_000, "retries": 2, "ema": 1_526_400,
}  # fmt: skip
RATES = [1e-7 * 10 ** (7 * i / 199) for i in range(200)]
LOSSES = [
    5.6 - 2.8 / (1 + math.exp(-3 * (math.log10(x) + 2.7))) + 4 * max(0, math.log10(x) + 1.2) ** 2
    for x in RATES
]
LR = {
    "kind": "lr", "device": "cpu", "accum": 1, "low": 1e-7, "high": 1.0, "updates": 200,
    "asked": 200, "stopped": "the smoothed loss is 4 times its least value", "own_lr": 0.0001,
    "is_first": True, "notes": [], "outcome": "found", "lr": 0.0023, "lowest_lr": 0.05,
    "fall": 2.7, "noise": 0.03, "why": "",
    "series": [
        {"lr": lr, "loss": loss, "smoothed": loss} for lr, loss in zip(RATES, LOSSES, strict=True)
    ],
}  # fmt: skip


def measured(found: dict[str, Any], **more: Any) -> Measured:
    return Measured(plan=PLAN, found={**found, **more}, seconds=12.3)


def hints(found: list[tuple[str, str]]) -> list[str]:
    return [f"{label}: {said}" for label, said in found]


def test_the_screens_of_throughput_and_loader(screen, golden) -> None:
    lines = probes.begin_lines(PLAN, "throughput")
    lines += ["", *probes.render_throughput(measured(THROUGHPUT), screen())]
    compiled = measured(THROUGHPUT, updates_that_compiled=2, median_s=12.0)
    lines += ["", *probes.render_throughput(compiled, screen())]
    own = {"is_torch": False, "loader": "ByteBatches"}
    small = {**LOADER["suggested"], "possible": 1, "enough": False, "num_workers": 1}  # type: ignore[dict-item]
    for more in (
        {},
        own,
        {"suggested": small, "cores": 2},
        {"verdict": "compute-bound", "wait_share": 0.01, "data_s": 0.0002, "compute_s": 0.06},
        {"verdict": "balanced", "wait_share": 0.45, "data_s": 0.05, "compute_s": 0.05},
    ):
        one = measured(LOADER, **more)
        lines += ["", *probes.render_loader(one, screen()), *hints(probes.loader_hints(one))]
    golden("probe-speed-100.txt", lines)


def test_the_screens_of_memory(screen, golden) -> None:
    lines = []
    seven = estimate(7 * 10**9, precision="fp32", optimizer="adamw")
    lines += probe_memory.render_estimate(seven, screen())
    for needed in (seven.training, 79 * 10**9, 74 * 10**9, 40 * 10**9):
        said, is_enough = probe_memory.room_line(needed, 80 * 10**9, screen())
        lines.append(f"{said}  -> {is_enough}")
    own = estimate(381_600, precision="fp32", optimizer="adamw")
    lines += ["", *probe_memory.render_memory(measured(MEMORY), own, screen())]
    lines += ["", *probe_memory.render_memory(measured(ON_GPU), None, screen())]
    there = probe_memory.room(ON_GPU, None)
    assert there == (76_000_000_000, 80_000_000_000)
    assert probe_memory.room(MEMORY, None) is None
    lines.append(probe_memory.room_line(*there, screen())[0])
    golden("probe-memory-100.txt", lines)


def test_the_screens_of_lr(screen, golden) -> None:
    lines = probe_lr.render_lr(measured(LR), screen())
    flat = [{"lr": lr, "loss": 5.6, "smoothed": 5.6} for lr in RATES]
    nothing = measured(
        LR, outcome="inconclusive", lr=None, why="the loss falls nowhere beyond its noise",
        series=flat, stopped="", is_first=False, lowest_lr=None, notes=["the loader has no state"],
    )  # fmt: skip
    lines += ["", *probe_lr.render_lr(nothing, screen()), *hints(probe_lr.lr_hints(nothing))]
    golden("probe-lr-100.txt", lines)
    golden("probe-lr-60.txt", probe_lr.render_lr(measured(LR), screen(width=60)))


def test_a_curve_of_any_values_is_drawn() -> None:
    for xs, ys in (
        ([1e-3], [2.0]),
        ([1e-3, 1e-2], [2.0, 2.0]),
        ([1e-7, 1.0], [1e30, -1e30]),
        ([1e-7, 1e-3, 1.0], [3.0, 2.0, 1e300]),
    ):
        lines = probe_lr.curve(xs, ys, mark=xs[0], width=40)
        assert len(lines) == probe_lr.HEIGHT + 2
        assert max(map(len, lines)) <= 40 + 14
    assert probe_lr.curve([], []) == []


OVERLAP = Overlap(
    n=13, num_train=1_200, num_val=100, num_exact=3, num_words=2, num_short=4,
    examples=(
        Example(val="val.jsonl:4", train="train.jsonl:22", kind="exact", words="the sky is blue"),
        Example(val=HOSTILE, train="train.jsonl:27", kind="words", words="word " * 40),
    ),
)  # fmt: skip
DECLARED = (
    DeclaredData(role="train", name="corpus.txt", digest="sha256:" + "5b" * 32,
                 num_bytes=434_049, file=Path("data/corpus.txt")),
    DeclaredData(role="val", name=HOSTILE, digest="tree-sha256:1", num_bytes=None, file=None),
)  # fmt: skip
SPLIT = Split(
    folder=Path("out"), file=Path("all.jsonl"), by="task", share=0.1, seed=4, sha256="ab" * 32,
    strata=(Stratum(name="code", num=23, num_val=2), Stratum(name="maths", num=1_070, num_val=107)),
)  # fmt: skip


def test_the_screens_of_data(screen, golden) -> None:
    lines = probe_data.render_declared(DECLARED)
    lines += ["", *probe_data.render_overlap(OVERLAP, screen())]
    clean = replace(OVERLAP, num_exact=0, num_words=0, num_short=0, examples=())
    lines += ["", *probe_data.render_overlap(clean, screen())]
    lines += ["", *probe_data.render_split(SPLIT, screen())]
    lines += ["", *probe_data.render_split(replace(SPLIT, by=None), screen())]
    golden("probe-data-100.txt", lines)
    assert not any(char in "\x1b\u202e" for line in lines for char in line)


def test_the_documents() -> None:
    def read(body: dict[str, Any]) -> dict[str, Any]:
        return json.loads(dumps(body))

    speed = read(probes.json_of_measured(measured(THROUGHPUT)))
    assert (speed["schema_version"], speed["kind"], speed["tokens_per_s"]) == (
        1, "throughput", 18_311.87,
    )  # fmt: skip
    assert speed["command"][2:] == ["+exp=exp01", "name=it's"]
    seven = estimate(7 * 10**9, precision="fp32", optimizer="adamw")
    memory = read(probe_memory.json_of_memory(None, seven, 80 * 10**9))
    assert memory["estimate"]["bytes_per_param"]["training"] == 16
    assert memory["estimate"]["bytes"]["training_before_activations"] == 112 * 10**9
    assert memory["estimate"]["bytes"]["inference_before_cache"] == 28 * 10**9
    assert (memory["needed"], memory["available"], memory["measured"]) == (
        112 * 10**9, 80 * 10**9, None,
    )  # fmt: skip
    held = read(probe_memory.json_of_memory(measured(MEMORY), None, None))["measured"]["training"]
    assert held == 1_526_400 * 2 + 73_728 + 3_052_904 + 43_900_000
    data = read(probe_data.json_of_data("k3f9 exp01", DECLARED, OVERLAP))
    assert (data["overlap"]["share"], data["overlap"]["found"]) == (0.05, 5)
    assert [one["is_here"] for one in data["declared"]] == [True, False]
    assert read(probe_data.json_of_data(None, (), None))["overlap"] is None
    assert read(probe_data.json_of_split(SPLIT))["seed"] == 4
