"""`expdb gc` as it is typed."""

from __future__ import annotations

import json


def test_it_asks_says_and_can_be_taken_back(mine):
    assert mine("gc", "--dry-run").out.splitlines()[-1] == "nothing to collect"
    dry = mine("gc", "--dry-run", "--all")
    assert dry.out.splitlines()[0].split() == ["what", "experiment", "size", "why"]
    assert "keep: last 2" in dry.out
    assert dry.err.splitlines()[-1] == "nothing written"
    found = json.loads(mine("gc", "--dry-run", "--json").out)
    assert {item["kind"] for item in found["items"]} == {"checkpoint", "pin"}
    assert not any(item["goes"] for item in found["items"])
    assert mine("gc", "-y").err.splitlines()[-1] == "nothing to collect"


def test_checkpoints_go_and_the_trash_is_purged(own_lab, mine):
    [first] = own_lab.top.glob("runs/exp=exp01/run=*/checkpoints/step=20")
    for step in (5, 15):
        folder = first.with_name(f"step={step}")
        folder.mkdir()
        for path in first.iterdir():
            text = path.read_bytes().replace(b'"step": 20', b'"step": %d' % step)
            (folder / path.name).write_bytes(text)
    ran = first.parents[1].name[4:]
    mine("fsck", "--repair")
    refused = mine("gc", "exp01")
    assert (refused.code, refused.err.splitlines()[-1]) == (4, "hint: expdb gc -y")
    done = mine("gc", "exp01", "-y")
    assert done.code == 0, done.err
    assert "goes" in done.err
    assert "collected 2 checkpoints, " in done.err
    assert "undo:      expdb undo\n" in done.err
    assert "expdb gc --purge 0d" in done.err
    assert not first.with_name("step=5").exists()
    assert "gc: 2 checkpoints" in mine("ops").out
    assert "2 checkpoints back" in mine("undo").err
    assert first.with_name("step=5").exists()
    assert mine("gc", "exp01", "-y", "-q", "--last", "1").out.splitlines() == [
        f"exp=exp01/run={ran}/checkpoints/step={step}" for step in (5, 10, 15)
    ]
    purged = mine("gc", "-y", "--purge", "0d")
    assert "3 of the trash" in purged.err
    assert "deleted for good" in purged.err
    assert mine("gc", "-y", "--purge", "soon").code == 2
    assert mine("gc", "nope", "-y").code == 3
    assert mine("gc", "exp01", "-w", "seed = 1").code == 2
