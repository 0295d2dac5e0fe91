"""Checkpoints on disk: whole or not there, verified when read, kept by the rule."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from expdb.errors import BadInput, Corrupt, NotFound
from expdb.store import checkpoints as folders
from expdb.store.layout import RunLayout
from expdb.track.checkpoint import Checkpointer, load_checkpoint, load_part
from expdb.track.state import State
from tests import warm

pytestmark = pytest.mark.slow

torch.set_num_threads(1)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def layout(tmp_path):
    return RunLayout(tmp_path / "exp=e" / "run=k3f9x2m7qd")


def state_of(value, **parts):
    model = nn.Linear(2, 2)
    nn.init.constant_(model.weight, value)
    return State(model=model, **parts)


def weight_of(state):
    return state.models[""].weight[0, 0].item()


def save(layout, *values, attempt=1, **options):
    """Save step -> value, each whole before the next; return what was said of the last."""
    writer = Checkpointer(layout, attempt=attempt, **options)
    said = ()
    for step, value in values:
        writer.save(step, state_of(value))
        said = writer.wait()
    return said


def flip(path, at=-3000):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_saved_state_comes_back_and_the_manifest_tells_what_is_in_it(layout):
    model = nn.Linear(2, 2)
    optim = torch.optim.AdamW(model.parameters())
    state = State(model=model, optim=optim, extra={"n": 3})
    state.loop.tokens = 77
    writer = Checkpointer(layout, attempt=2)
    writer.note_value(300, 1.5)
    writer.save(300, state)
    [saved] = writer.wait()
    assert saved.checkpoint == folders.read_checkpoint(layout, 300)
    assert (saved.checkpoint.step, saved.checkpoint.attempt) == (300, 2)
    folder = layout.checkpoint(300)
    data = json.loads((folder / "manifest.json").read_text())
    assert {path.name for path in folder.iterdir()} == {*data["files"], "manifest.json"}
    assert set(data["files"]) == {"model.pt", "optim.pt", "state.pt"}
    assert data["format"] == 1
    assert (data["tokens"], data["value"], data["torch"]) == (77, 1.5, torch.__version__)
    assert data["parts"]["optim"] == {"file": "optim.pt", "names": []}
    assert data["parts"]["ranks"]["file"] == "state.pt"
    other = state_of(0.0, optim=None, extra={"n": 0})
    other.optims = {"": torch.optim.AdamW(other.models[""].parameters())}
    assert load_checkpoint(layout, 300, other).step == 300
    assert other.digest() == state.digest()
    # The model's file is a plain state_dict that needs no expdb.
    nn.Linear(2, 2).load_state_dict(torch.load(folder / "model.pt"))


def test_every_file_loads_with_weights_only(layout):
    save(layout, (1, 1.0))
    for path in layout.checkpoint(1).glob("*.pt"):
        torch.load(path, weights_only=True)


def test_without_a_step_the_newest_good_one_is_loaded_and_damage_is_said(layout):
    save(layout, (100, 1.0), (200, 2.0), (300, 3.0), keep={"last": None})
    flip(layout.checkpoint(300) / "model.pt", at=1000)
    state = state_of(0.0)
    loaded = Checkpointer(layout, attempt=2).load(None, state)
    assert (loaded.step, weight_of(state)) == (200, 2.0)
    assert loaded.notes[0].startswith("checkpoint 300 is passed over: model.pt is damaged")


def test_a_damaged_file_is_named_with_the_next_good_step(layout):
    save(layout, (100, 1.0), (200, 2.0), (300, 3.0), keep={"last": None})
    flip(layout.checkpoint(300) / "state.pt", at=1000)
    flip(layout.checkpoint(200) / "model.pt", at=1000)
    state = state_of(0.0)
    with pytest.raises(
        Corrupt, match=r"checkpoint 300 of k3f9x2m7qd: state\.pt is damaged"
    ) as caught:
        load_checkpoint(layout, 300, state)
    assert caught.value.hints == ("the next good one: step 100",)
    assert weight_of(state) == 0.0
    (layout.checkpoint(100) / "model.pt").unlink()
    with pytest.raises(NotFound, match="has no good checkpoint") as none:
        load_checkpoint(layout, None, state)
    assert len(none.value.details) == 3


def test_no_checkpoint_at_all(layout):
    with pytest.raises(NotFound, match="k3f9x2m7qd has no checkpoint"):
        load_checkpoint(layout, None, state_of(0.0))
    with pytest.raises(NotFound, match="has no checkpoint 5; it has none"):
        load_checkpoint(layout, 5, state_of(0.0))


def test_what_could_not_be_loaded_again_is_refused_before_anything_is_written(layout):
    state = state_of(1.0, extra={"x": np.float32(1)})
    with pytest.raises(BadInput, match=r"`extra\.x\.plain` is a numpy\.float32"):
        Checkpointer(layout, attempt=1).save(1, state)
    assert not layout.checkpoints.exists()


def test_a_checkpoint_of_an_earlier_attempt_is_replaced(layout):
    save(layout, (100, 1.0), (200, 2.0))
    save(layout, (200, 7.0), attempt=2)
    state = state_of(0.0)
    load_checkpoint(layout, 200, state)
    assert weight_of(state) == 7.0
    assert folders.read_checkpoint(layout, 200).attempt == 2
    assert sorted(path.name for path in layout.checkpoints.iterdir()) == ["step=100", "step=200"]


def test_what_a_dead_writer_left_is_replaced(layout):
    temp = folders.temp_dir(layout, 100)
    temp.mkdir(parents=True)
    (temp / "model.pt").write_bytes(b"half")
    (temp / "else.pt").write_bytes(b"of something")
    assert folders.read_manifests(layout) == ()
    save(layout, (100, 1.0))
    assert {path.name for path in layout.checkpoint(100).iterdir()} == {
        "model.pt",
        "state.pt",
        "manifest.json",
    }


def test_the_next_save_waits_for_the_one_in_flight(layout):
    """Two saves at once never share the folder, and both are told of in order."""
    release = threading.Event()
    writer = Checkpointer(layout, attempt=1, protected=lambda: release.wait(60) and ())
    writer.save(1, state_of(1.0))
    assert writer.poll() == ()
    threading.Timer(0.2, release.set).start()
    writer.save(2, state_of(2.0))
    assert [one.checkpoint.step for one in writer.wait()] == [1, 2]
    assert writer.wait() == ()


@pytest.mark.parametrize("call", ["save", "wait", "poll"])
def test_a_failure_in_the_background_is_raised_by_the_next_call(layout, monkeypatch, call):
    writer = Checkpointer(layout, attempt=1)
    save(layout, (1, 1.0))

    def full(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(folders.os, "fsync", full)
        patch.setattr("expdb.track.checkpoint.fsync_dir", lambda path: None)
        writer.save(2, state_of(2.0))
        writer._thread.join()
    with pytest.raises(Corrupt, match="checkpoint 2 of k3f9x2m7qd could not be written: No space"):
        writer.save(3, state_of(3.0)) if call == "save" else getattr(writer, call)()
    assert [one.step for one in folders.read_manifests(layout) if one.complete] == [1]
    assert not folders.temp_dir(layout, 2).exists()
    writer.save(3, state_of(3.0))
    assert [one.checkpoint.step for one in writer.wait()] == [3]


def test_a_full_disk_while_tensors_are_written(layout, monkeypatch):
    writer = Checkpointer(layout, attempt=1)

    def torn(content, path):
        path.write_bytes(b"half")
        raise RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", torn)
        with pytest.raises(Corrupt, match=r"could not be written: .*unexpected pos"):
            writer.save(1, state_of(1.0))
    assert list(layout.checkpoints.iterdir()) == []
    writer.save(1, state_of(1.0))
    assert writer.wait()


class Test_retention:
    def steps(self, layout):
        return [one.step for one in folders.read_manifests(layout)]

    def test_saves_first_and_tells_what_went(self, layout):
        writer = Checkpointer(layout, attempt=1, keep={"last": 2, "best": 1})
        for step, value in ((100, 2.5), (200, 2.1), (300, 2.3), (400, 2.2)):
            writer.note_value(step, value)
            writer.save(step, state_of(1.0))
        said = writer.wait()
        told, last = {one.checkpoint.step: one.removed for one in said}, said[-1]
        assert told == {100: (), 200: (), 300: (100,), 400: ()}
        assert last.keep == "keep: last 2, best 1"
        assert self.steps(layout) == [200, 300, 400]
        assert not list(layout.checkpoints.glob(".tmp-*"))

    def test_the_values_of_an_earlier_attempt_are_in_its_manifests(self, layout):
        writer = Checkpointer(layout, attempt=1, mode="max")
        for step, value in ((100, 0.9), (200, 0.1)):
            writer.note_value(step, value)
            writer.save(step, state_of(1.0))
        writer.wait()
        save(layout, (300, 1.0), (400, 1.0), attempt=2, mode="max")
        assert self.steps(layout) == [100, 300, 400]

    def test_what_is_protected_stays(self, layout):
        rule = {"keep": {"last": 1, "best": 0}}
        save(layout, (1, 1.0), (2, 1.0), (3, 1.0), protected=lambda: {1}, **rule)
        assert self.steps(layout) == [1, 3]

    def test_nothing_goes_when_it_is_not_known_what_is_protected(self, layout):
        def unknown():
            raise Corrupt("ref baseline is not JSON")

        rule = {"keep": {"last": 1, "best": 0}}
        [said] = save(layout, (1, 1.0), (2, 1.0), protected=unknown, **rule)
        assert self.steps(layout) == [1, 2]
        assert said.note == (
            "no checkpoint removed: what is protected is not known (ref baseline is not JSON)"
        )

    def test_damaged_ones_and_links_into_other_runs_are_left_alone(self, layout, tmp_path):
        other = RunLayout(tmp_path / "exp=e" / "run=q1q1q1q1q1")
        save(other, (1, 5.0))
        save(layout, (2, 1.0))
        layout.checkpoint(1).symlink_to(other.checkpoint(1))
        (layout.checkpoint(2) / "model.pt").write_bytes(b"torn")
        rule = {"keep": {"last": 1, "best": 0}}
        [said] = save(layout, (3, 1.0), (4, 1.0), **rule)
        assert said.removed == (3,)
        assert self.steps(layout) == [1, 2, 4]
        assert folders.verify(other, 1)


class Test_one_part:
    def test_the_model_alone_goes_into_a_model(self, layout):
        save(layout, (1, 4.0))
        model = nn.Linear(2, 2)
        load_part(layout, 1, "model", into=model)
        assert model.weight[0, 0].item() == 4.0

    def test_averaged_weights_go_into_a_plain_model_too(self, layout):
        state = state_of(4.0)
        averaged = torch.optim.swa_utils.AveragedModel(state.models[""])
        writer = Checkpointer(layout, attempt=1)
        writer.save(1, State(model=state.models[""], ema=averaged))
        writer.wait()
        model, other = nn.Linear(2, 2), torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2))
        load_part(layout, 1, "ema", into=model)
        load_part(layout, 1, "ema", into=other)
        assert model.weight[0, 0].item() == other.module.weight[0, 0].item() == 4.0

    def test_several_models_go_into_a_dict(self, layout):
        writer = Checkpointer(layout, attempt=1)
        writer.save(1, State(model={"a": nn.Linear(1, 1), "b": nn.Linear(2, 1)}))
        writer.wait()
        load_part(layout, 1, "model", into={"a": nn.Linear(1, 1), "b": nn.Linear(2, 1)})
        with pytest.raises(BadInput, match="has no model named `b`"):
            load_part(layout, 1, "model", into={"a": nn.Linear(1, 1)})

    def test_a_part_that_is_not_there_or_does_not_fit(self, layout):
        save(layout, (1, 4.0))
        with pytest.raises(NotFound, match="has no part `ema`; it has model, "):
            load_part(layout, 1, "ema", into=nn.Linear(2, 2))
        with pytest.raises(BadInput, match="checkpoint's model does not fit"):
            load_part(layout, 1, "model", into=nn.Linear(3, 2))


def test_a_rank_that_is_not_the_first_writes_nothing(layout):
    writer = Checkpointer(layout, attempt=1, rank=1)
    writer.save(1, state_of(1.0))
    assert writer.wait() == ()
    assert not layout.checkpoints.exists()


# Killed between any two file operations

KILLED = """
import json, os, shutil, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from torch import nn
from expdb.store.layout import RunLayout
from expdb.track.checkpoint import Checkpointer
from expdb.track.state import State
from tests.faults.killing import Trap

def state_of(value):
    model = nn.Linear(2, 2)
    nn.init.constant_(model.weight, value)
    return State(model=model)

def killed_before(nth):
    trap = Trap(nth)
    save = torch.save
    def counted(*arguments):
        trap.tick()  # it opens its file by itself
        return save(*arguments)
    torch.save = counted
    trap.arm()

base, ends = Path(sys.argv[1]), {}
for step in sys.argv[2:]:
    ends[step] = []
    for nth in range(1, 200):
        folder = base.with_name(f"run=killed{step}x{nth}")
        shutil.copytree(base, folder)
        child = os.fork()
        if child == 0:
            killed_before(nth)
            writer = Checkpointer(RunLayout(folder), attempt=2, keep={"last": 1, "best": 0})
            writer.save(int(step), state_of(9.0))
            writer.wait()
            os._exit(0)
        ends[step].append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if ends[step][-1] == 0:
            break
sys.stdout.write(json.dumps(ends))
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Step -> the folders of runs whose writer was killed before its nth file operation."""
    base = RunLayout(tmp_path_factory.mktemp("killed") / "exp=e" / "run=k3f9x2m7qd")
    save(base, (100, 1.0), (200, 2.0))
    script = base.root.with_name("killed.py")
    script.write_text(KILLED)
    words = [str(script), str(base.root), "200", "300"]
    done = warm.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)
    for statuses in ends.values():
        assert statuses[-1] == 0
        assert set(statuses[:-1]) == {-signal.SIGKILL}
    return {
        int(step): [
            RunLayout(base.root.with_name(f"run=killed{step}x{nth}"))
            for nth in range(1, len(statuses) + 1)
        ]
        for step, statuses in ends.items()
    }


@pytest.mark.parametrize("step", [300, 200], ids=["a new step", "a step of an earlier attempt"])
def test_killed_in_the_middle_of_a_save_a_whole_one_is_always_there(killed, step):
    assert len(killed[step]) > 12
    seen = set()
    for layout in killed[step]:
        writer = Checkpointer(layout, attempt=3)
        state = state_of(0.0)
        loaded = writer.load(None, state)
        expected = {200: {2.0, 9.0} if step == 200 else {2.0}, 300: {9.0}}
        assert weight_of(state) in expected[loaded.step]
        assert all(one.complete for one in folders.read_manifests(layout))
        assert not list(layout.checkpoints.glob(".tmp-*"))
        writer.save(400, state_of(4.0))
        assert writer.wait()[-1].checkpoint.complete
        seen.add(weight_of(state))
    assert seen == {2.0, 9.0}
