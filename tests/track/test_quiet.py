"""A handle that records nothing has the methods of one that does."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

import expdb
from expdb.track.quiet import QuietRun
from expdb.track.run import Run


def public(kind: type) -> dict[str, object]:
    found = {name: getattr(kind, name) for name in dir(kind) if name[0] != "_"}
    return {name: item for name, item in found.items() if callable(item)}


def test_nobody_needs_an_if(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(public(QuietRun)) == set(public(Run))
    for name, method in public(Run).items():
        wanted = inspect.signature(method)  # type: ignore[arg-type]
        had = inspect.signature(public(QuietRun)[name]).parameters  # type: ignore[arg-type]
        if not any(item.kind is inspect.Parameter.VAR_KEYWORD for item in had.values()):
            assert list(had) == list(wanted.parameters), name
    run = QuietRun()
    with run as same:
        assert same is run
        run.log({"x": None, "": 1}, step=1)
        run.log_eval("a", {"b": "c"}, n=1)
        run.use_data("train", "nowhere")
        run.event(1, "warn", "rule", "text")
        run.note("x")
        run.alert("x", level="critical", step=3)
        run.log({"x": 1.0}, step=1, all_ranks=True)
        run.log_text("", None)
        run.log_hist("", [], bins=0)
        run.log_table("", rows=None, columns=3)
        run.log_image("", b"", caption="x")
        run.artifact("nowhere", name="x")
        state = expdb.State(model=torch.nn.Linear(1, 1))
        run.checkpoint(1, state)
        run.settle(wait=True)
        assert run.restore(state) == 0
        run.console.line("not said")
        run.console.warning("said")
    run.finish()
    run.fail("x")
    run.preempt("x")
    assert run.result() != run.result()
    assert capsys.readouterr().err == "warning: said\n"


def test_errors_pass_through() -> None:
    with pytest.raises(ValueError, match="mine"), QuietRun():
        raise ValueError("mine")


def test_a_rank_beside_restores_what_rank_0_restores(tmp_path: Path) -> None:
    made = torch.nn.Linear(1, 1)
    with expdb.start({}, store=tmp_path, mode="on") as run:
        torch.nn.init.constant_(made.weight, 4.0)
        run.checkpoint(4, expdb.State(model=made))
    for options in ({"layout": run.layout, "resumed_from": 4}, {"fork": (run.dir, 4)}):
        beside = QuietRun(**options)  # type: ignore[arg-type]
        other = torch.nn.Linear(1, 1)
        assert beside.restore(expdb.State(model=other)) == beside.step == 4
        assert other.weight.item() == 4.0
