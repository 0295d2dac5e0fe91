"""How a check of a store looks, before and after a repair."""

from __future__ import annotations

import json as std_json
from dataclasses import replace

from expdb.actions.fsck import FsckResult
from expdb.report import fsck
from expdb.report.json import dumps
from expdb.store.fsck.report import Counts, Finding
from expdb.text import cells

TRASH = ".expdb/trash/fsck-20261128T140300Z"


def finding(kind, what, path, **more):
    return Finding(kind=kind, what=what, path=path, **more)


FINDINGS = (
    finding(
        "damaged",
        "rank-0.1.wal: torn at its end; all 174 whole frames kept",
        "exp=exp06_moe/run=a9m4y7h3pq/attempts/1/rank-0.1.wal",
        run="a9m4y7h3pq",
        experiment="exp06_moe",
        can_mend=True,
        result="mended",
    ),
    finding(
        "damaged",
        "checkpoints/step=200/optim.pt: differs from its SHA-256",
        "exp=exp06_moe/run=v8k2h5d3rt/checkpoints/step=200/optim.pt",
        run="v8k2h5d3rt",
        experiment="exp06_moe",
        can_mend=True,
        result="set aside in trash",
        trash=f"{TRASH}/exp=exp06_moe/run=v8k2h5d3rt/checkpoints/step=200/optim.pt",
    ),
    finding(
        "missing",
        "names run z9x4b2k7tq, which is not in the store",
        ".expdb/refs/paper-fig2.json",
        ref="paper-fig2",
        result="kept",
    ),
    finding("stray", "no run.json: not expdb's, left alone", "exp=old"),
)
COUNTS = Counts(runs=15, checkpoints=27, refs=2, ops=5, files=214)


def result(findings=(), **change):
    problems = tuple(item for item in findings if item.is_problem)
    made = FsckResult(
        store="runs", counts=COUNTS, findings=tuple(findings), left=problems, seconds=1.2
    )
    return replace(made, **change)


def checked():
    return result([replace(item, result="", trash="") for item in FINDINGS])


def repaired():
    return result(FINDINGS, is_repair=True, left=(FINDINGS[2],), trash=TRASH)


def test_a_damaged_store(screen, golden):
    golden("fsck-100.txt", fsck.render(checked(), screen()))
    assert fsck.next_commands(checked()) == [("mend", "expdb fsck --repair")]


def test_a_damaged_store_in_a_pipe_and_narrow(screen, golden):
    golden("fsck-pipe.txt", fsck.render(checked(), screen(terminal=False, ascii=True)))
    lines = fsck.render(checked(), screen(width=60))
    assert max(cells(line) for line in lines[2:]) <= 60


def test_a_repaired_store(screen, golden):
    golden("fsck-repair-100.txt", fsck.render(repaired(), screen()))
    assert fsck.next_commands(repaired()) == []


def test_a_sound_store_is_one_line(screen):
    said = "sound: 15 runs, 27 checkpoints, 2 refs, 5 ops, 214 files checked in 1.2s"
    assert fsck.render(result(), screen()) == [said]
    lines = fsck.render(result(FINDINGS[3:]), screen())
    assert lines[-1] == "sound: nothing is damaged"
    one = result(counts=Counts(runs=1, checkpoints=2, files=20))
    assert fsck.render(one, screen()) == ["sound: 1 run, 2 checkpoints, 20 files checked in 1.2s"]


def test_lost_points_are_counted(screen):
    part = replace(FINDINGS[0], can_mend=False, points_lost=300, result="")
    assert fsck.render(result([part]), screen())[-1] == (
        "1 problem, none can be mended, 300 points lost"
    )
    journal = replace(part, can_mend=True, points_lost=1, is_least=True)
    assert fsck.render(result([part, journal]), screen())[-1] == (
        "2 problems, 1 can be mended, at least 301 points lost"
    )
    assert fsck.render(result([journal]), screen())[-1] == (
        "1 problem, it can be mended, at least 1 point lost"
    )
    assert fsck.next_commands(result([journal])) == [("mend", "expdb fsck a9m4y7h3pq --repair")]


def test_what_is_talk(screen):
    live = result(live=("k3f9x2m7qd", "t1h6x2m7qd"), sealed=("a9m4y7h3pq",), is_repair=True)
    assert fsck.talk(live, screen()) == [
        "being written: k3f9 t1h6; their open files were not looked at",
        "sealed the journals of 1 killed run",
    ]


def test_only_ids(screen):
    assert fsck.quiet(checked()) == ["a9m4y7h3pq", "v8k2h5d3rt"]
    assert fsck.quiet(repaired()) == []


def test_hostile_names_are_shown_as_text(screen):
    evil = replace(FINDINGS[0], experiment="\x1b[31mx", what="\x07\u202e", run="a9m4y7h3pq")
    ref = replace(FINDINGS[2], ref="\x1b]0;x")
    text = "\n".join(fsck.render(result([evil, ref]), screen()))
    assert "\x1b" not in text
    assert "\\x1b[31mx" in text
    assert "\\u202e" in text


def test_json(golden):
    data = fsck.document(repaired())
    golden("fsck.json", dumps(data).splitlines())
    assert std_json.loads(dumps(data))["sound"] is False
