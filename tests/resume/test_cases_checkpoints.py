"""Cases of the case log about checkpoints: A35 (half written), A38 (what safe loading refuses)."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

import expdb
from expdb.cli.main import main
from expdb.errors import Unsupported
from expdb.model import Run
from expdb.store import checkpoints
from expdb.store.layout import RunLayout
from expdb.store.runs import read_run
from expdb.track.checkpoint import Checkpointer, load_checkpoint
from expdb.track.resume import last_good
from tests.faults.killing import Child, Trap
from tests.resume.traces import edit
from tests.store.fsck_made import check, said

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def plain_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # no commit of this repository is pinned


def state_of(value: float = 1.0) -> expdb.State:
    model = nn.Linear(2, 2)
    nn.init.constant_(model.weight, value)
    return expdb.State(model=model, extra={"it": [0]})


def begin(store: Path, resume: str | None = None) -> Any:
    settings = {"keep": {"last": 2, "best": 0}, "print": "quiet"}
    return expdb.start({"seed": 1, "expdb": settings}, name="e", store=store, resume=resume)


def crashed(store: Path, steps: tuple[int, ...], change: str = "") -> RunLayout:
    """A run that saved at these steps and was killed, in the middle of the next save if asked."""

    def work(child: Child) -> None:
        run = begin(store)
        for step in steps:
            run.log({"train/loss": 1.0}, step=step)
            run.checkpoint(step, state_of(step))
            run.settle(wait=True)
            child.tell(step)
        if change == "in a save":
            layout = RunLayout(run.dir)
            Trap(5, effect="tear", within=layout.checkpoints).arm()
            run.checkpoint(steps[-1] + 1, state_of(99.0))
            run.settle(wait=True)
        os.kill(os.getpid(), signal.SIGKILL)

    child = Child(work)
    assert child.wait() == -signal.SIGKILL
    assert child.told == steps[-1]
    [folder] = store.glob("exp=*/run=*")
    return RunLayout(folder)


def read(store: Path, layout: RunLayout) -> Run:
    return read_run(layout.root, store_root=store)


def shown(store: Path, layout: RunLayout, capsys: pytest.CaptureFixture[str]) -> str:
    """What `show` says of the checkpoints."""
    capsys.readouterr()
    assert main(["--store", str(store), "show", layout.id]) == 0
    text = capsys.readouterr().out
    [line] = [one for one in text.splitlines() if one.startswith("  checkpoints  ")]
    return line.removeprefix("  checkpoints  ")


# ------------------------------------------------------------------------------------------- A35


def test_case_a35_the_newest_whole_one_is_chosen_and_nothing_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs"
    layout = crashed(store, (22, 23), "in a save")
    for step in (24, 25):  # as a tool without manifests last would have left them
        checkpoints.temp_dir(layout, step).mkdir(exist_ok=True)
        torch.save({}, checkpoints.temp_dir(layout, step) / "model.pt")
        torch.save({}, checkpoints.temp_dir(layout, step) / "state.pt")
        checkpoints.seal(checkpoints.temp_dir(layout, step), checkpoints.Manifest(step=step))
        checkpoints.put_in_place(layout, step)
    (layout.checkpoint(25) / "state.pt").unlink()
    (layout.checkpoint(24) / "model.pt").write_bytes(b"")
    before = {path: path.read_bytes() for path in layout.checkpoints.rglob("*.*")}
    good, why = last_good(layout)
    assert good == 23
    assert why == (
        "checkpoint 25 is not used: state.pt is missing",
        f"checkpoint 24 is not used: model.pt has 0 of {before_bytes(layout, 24):,} bytes",
    )
    assert [(one.step, one.complete) for one in read(store, layout).checkpoints] == [
        (22, True), (23, True), (24, False), (25, False),
    ]  # fmt: skip
    after = {path: path.read_bytes() for path in layout.checkpoints.rglob("*.*")}
    assert after == before
    with begin(store, resume=layout.id) as run:
        state = state_of(0.0)
        assert (run.resumed_from, run.restore(state)) == (23, 23)
        assert state.models[""].weight[0, 0].item() == 23.0
        run.checkpoint(26, state)
    assert checkpoints.steps(layout) == (23, 24, 25, 26)  # 22 is beyond keep: last 2
    text = capsys.readouterr().err
    assert "checkpoint 25 is not used: state.pt is missing" in text
    assert "checkpoint 24 is not used: model.pt has 0 of" in text


def before_bytes(layout: RunLayout, step: int) -> int:
    manifest = json.loads((layout.checkpoint(step) / "manifest.json").read_text())
    return int(manifest["files"]["model.pt"]["bytes"])


@pytest.mark.parametrize("at", range(1, 25, 3))
def test_case_a35_killed_in_a_save_there_is_the_old_one_or_the_whole_new_one(
    tmp_path: Path, at: int
) -> None:
    store = tmp_path / "runs"

    def work(_: Child) -> None:
        run = begin(store)
        run.log({"train/loss": 1.0}, step=1)
        run.checkpoint(1, state_of())
        run.settle(wait=True)
        Trap(at, within=RunLayout(run.dir).checkpoints).arm()
        run.checkpoint(2, state_of(2.0))
        run.settle(wait=True)
        os.kill(os.getpid(), signal.SIGKILL)

    assert Child(work).wait() == -signal.SIGKILL
    [folder] = store.glob("exp=*/run=*")
    layout = RunLayout(folder)
    there = read(store, layout).checkpoints
    assert [one.step for one in there] in ([1], [1, 2])
    assert all(one.complete and not checkpoints.damage(layout, one.step) for one in there)
    assert set(said(check(store).findings)) <= {"leftover checkpoints/.tmp-step=2"}


def test_case_a35_the_one_being_written_by_a_live_process_is_not_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs"
    may_go, is_there = threading.Event(), threading.Event()
    seal = checkpoints.seal

    def slow(folder: Path, manifest: checkpoints.Manifest) -> None:
        if manifest.step == 2:
            is_there.set()
            assert may_go.wait(60)
        seal(folder, manifest)

    monkeypatch.setattr(checkpoints, "seal", slow)
    with begin(store) as run:
        layout = RunLayout(run.dir)
        run.log({"train/loss": 1.0}, step=1)
        run.checkpoint(1, state_of())
        run.settle(wait=True)
        run.checkpoint(2, state_of(2.0))
        assert is_there.wait(60)
        found = read(store, layout)
        assert (found.state, found.problems) == ("running", ())
        assert [(one.step, one.complete) for one in found.checkpoints] == [(1, True)]
        assert last_good(layout) == (1, ())
        assert said(check(store).findings) == []
        assert checkpoints.temp_dir(layout, 2).is_dir()
        assert found.saving == (2,)
        assert shown(store, layout, capsys).endswith("; 2 in progress")
        may_go.set()
    assert [one.step for one in read(store, layout).checkpoints] == [1, 2]
    assert read(store, layout).saving == ()
    assert "in progress" not in shown(store, layout, capsys)


def test_case_a35_what_a_killed_process_left_is_not_in_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs"
    layout = crashed(store, (22,), "in a save")
    assert checkpoints.temp_dir(layout, 23).is_dir()
    assert (read(store, layout).state, read(store, layout).saving) == ("crashed", ())
    assert shown(store, layout, capsys).startswith("22 (last); ")


# ------------------------------------------------------------------------------------------- A38


@dataclass
class Own:
    """A class of the user."""

    value: int = 1


class Trick:
    """What runs code when it is loaded without care."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("ran",))


CONTENTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "tensors": (lambda: torch.ones(3), ()),
    "a config": (
        lambda: OmegaConf.create([1, 2]),
        ("omegaconf.base.ContainerMetadata", "omegaconf.listconfig.ListConfig"),
    ),
    "state of numpy": (
        lambda: np.random.get_state(),
        ("numpy._core.multiarray._reconstruct", "numpy.dtype", "numpy.ndarray"),
    ),
    "a scalar of numpy": (
        lambda: np.float64(0.5),
        ("numpy._core.multiarray.scalar", "numpy.dtype"),
    ),
    "an own class": (Own, (f"{Own.__module__}.Own",)),
    "a trick": (Trick, ("posix.mkdir",)),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_case_a38_what_is_not_loaded_is_named_by_file(tmp_path: Path, name: str) -> None:
    make, classes = CONTENTS[name]
    store = tmp_path / "runs"
    layout = crashed(store, (1, 2))

    def put(files: dict[str, Any]) -> None:
        files["state"]["extra"]["it"] = {"plain": make()}

    edit(layout, 2, put)
    # To look at it and to check its hashes loads nothing.
    [_, two] = read(store, layout).checkpoints
    assert (two.complete, checkpoints.damage(layout, 2)) == (True, "")
    assert said(check(store).findings) == []
    state = state_of(0.0)
    if not classes:
        assert load_checkpoint(layout, 2, state).step == 2
        return
    with begin(store, resume=layout.id) as run:
        assert run.resumed_from == 2
        with pytest.raises(Unsupported) as caught:
            run.restore(state)
    message = caught.value.message
    assert message.startswith(f"checkpoint 2 of {layout.id} holds what is not loaded, since")
    for one in classes:
        assert one in message
        assert one in caught.value.hints[0]
        assert one in caught.value.details[0]
    assert [line.split()[0] for line in caught.value.details] == ["state.pt"]
    assert "torch.serialization.add_safe_globals([" in caught.value.hints[0]
    assert state.models[""].weight[0, 0].item() == 0.0
    assert not Path("ran").exists()


def test_case_a38_what_the_user_allows_is_loaded(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    layout = crashed(store, (1,))
    edit(layout, 1, lambda files: files["state"]["extra"].update(it={"plain": Own(7)}))
    state = state_of()
    with torch.serialization.safe_globals([Own]):
        assert load_checkpoint(layout, 1, state).step == 1
    assert state.extra["it"] == Own(7)


def test_case_a38_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path / "exp=e" / "run=k3f9x2m7qd")
    for name, (make, classes) in CONTENTS.items():
        state = expdb.State(model=nn.Linear(2, 2), extra={"it": make()})
        writer = Checkpointer(layout, attempt=1)
        if not classes:
            writer.save(1, state)
            assert len(writer.wait()) == 1
            continue
        with pytest.raises(expdb.BadInput, match=r"`extra\.it\.plain.*` is a "):
            writer.save(2, state)
        assert checkpoints.steps(layout) == (1,), name
