"""How tags, labels, notes, the trash, and requests look."""

from __future__ import annotations

from expdb.actions.results import (
    ControlResult,
    MarkResult,
    RemovePlan,
    RemoveResult,
    TagResult,
    TagRow,
    UndoResult,
)
from expdb.model import Op, RunAt
from expdb.report import control, naming, ops, trash
from expdb.store.trash import Trashed

OP = "w8e2m4x7qk"
EVIL = "\x1b[31m[red]../../x"
MINUTE = 60_000


def tag_rows(cast):
    return [
        TagRow(
            name="paper-fig2",
            at=RunAt(run="k3f9x2m7qd", step=300),
            run=cast.run("k3f9x2m7qd"),
            created_at_ms=cast.now_ms - 50 * MINUTE,
        ),
        TagRow(
            name=EVIL + "x" * 100,
            at=RunAt(run="h4q8z1rn6c"),
            run=cast.run("h4q8z1rn6c"),
            created_at_ms=None,
        ),
        TagRow(name="old", at=RunAt(run="z9x4b2k7tq"), run=None, created_at_ms=cast.now_ms),
    ]


def test_tags_are_a_table(cast, screen, golden):
    golden("tag-100.txt", naming.render_tags(tag_rows(cast), screen()))
    golden("tag-pipe.txt", naming.render_tags(tag_rows(cast), screen(terminal=False, ascii=True)))


def test_tags_as_json(cast):
    data = naming.json_of_tags(tag_rows(cast))
    assert data["tags"][0] == {
        "name": "paper-fig2",
        "run": "k3f9x2m7qd",
        "step": 300,
        "experiment": "baseline",
        "created_at": "2027-01-15T07:10:00.000Z",
    }
    assert [tag["experiment"] for tag in data["tags"][1:]] == ["exp01+optim.lr=0.005", None]


def test_what_a_tag_names_and_what_it_named(cast, screen):
    run = cast.run("k3f9x2m7qd")
    at = RunAt(run=run.id, step=300)
    made = TagResult(name="paper", before=None, after=at, op=OP, run=run)
    assert naming.render_tag(made, screen()) == ["tag paper → k3f9 baseline@300"]
    assert naming.json_of_tag(made)["after"] == {"run": run.id, "step": 300}
    gone = TagResult(name=EVIL, before=at, after=None, op=OP, run=None)
    assert naming.render_tag(gone, screen()) == ["tag \\x1b[31m[red]../../x removed (was k3f9@300)"]


def test_labels_and_notes(cast, screen, golden):
    counts = [("ablation", 1_204), (EVIL, 1), ("keep", 3)]
    golden("label-100.txt", naming.render_labels(counts, screen()))
    golden("label-pipe.txt", naming.render_labels(counts, screen(terminal=False, ascii=True)))
    golden("note.txt", naming.note_lines(["tried a higher lr", f"two\n{EVIL}\nlines"]))


def test_what_was_marked_and_what_was_so_already(cast, screen):
    one, two = cast.run("k3f9x2m7qd"), cast.run("t1h6y3cz8r")

    def said(**change):
        known = {"kind": "label", "text": "keep", "removed": False, "same": (), "op": OP}
        [line] = naming.render_mark(MarkResult(**{**known, **change}), screen())
        return line

    assert said(runs=(one,)) == "label keep on k3f9 baseline"
    assert said(runs=(one, two)) == "label keep on 2 runs"
    assert said(runs=(one,), same=(two,)) == "label keep on k3f9 baseline; 1 had it already"
    assert said(runs=(), same=(two,), op=None) == "label keep on t1h6 exp01 (as it was)"
    assert said(runs=(one,), removed=True) == "label keep off k3f9 baseline"
    assert said(runs=(one,), kind="note", text="x") == "noted on k3f9 baseline  (1 note)"
    assert said(runs=(one,), text=EVIL) == "label \\x1b[31m[red]../../x on k3f9 baseline"


def removal(cast):
    runs = (cast.run("k3f9x2m7qd"), cast.run("c7t3b9q5nv"))
    children = tuple(row.id for row in cast.rows[:9])
    return RemovePlan(
        runs=runs,
        bytes={runs[0].id: 9_200_000, runs[1].id: 120_000},
        children={runs[0].id: children},
    )


def test_what_would_be_removed(cast, screen, golden):
    plan = removal(cast)
    golden("rm-dry-run-100.txt", trash.render_removal(plan, screen()))
    golden("rm-dry-run-pipe.txt", trash.render_removal(plan, screen(terminal=False, ascii=True)))
    data = trash.json_of_removal(plan, None)
    assert (data["op"], data["bytes"]) == (None, 9_320_000)
    assert data["runs"][1] == {
        "id": "c7t3b9q5nv",
        "experiment": "exp09_fp16",
        "variant": "",
        "state": "failed",
        "bytes": 120_000,
        "parent_of": [],
    }


def test_what_was_removed_and_restored(cast, screen, golden):
    plan = removal(cast)
    moved = tuple((run.id, run.name) for run in plan.runs)
    done = RemoveResult(op=OP, into=True, runs=moved, bytes=plan.total)
    golden("rm.txt", trash.render_removed(done, plan, screen()))
    back = RemoveResult(op=OP, into=False, runs=moved[1:], bytes=120_000)
    assert trash.render_restored(back, screen()) == [
        "restored c7t3 exp09_fp16, 120 kB  (op w8e2m4x7qk)"
    ]


def test_the_trash_is_a_table(cast, screen, golden):
    entries = [
        Trashed(
            run=run,
            name=name,
            path=f"exp=exp01/run={run}",
            bytes=9_200_000,
            op=op,
            removed_at_ms=cast.now_ms - minutes * MINUTE,
            place=run,
        )
        for run, name, op, minutes in (
            ("w2q5c8n0fd", "exp01", OP, 3),
            ("w2q5d8n0fd", EVIL, "", 60 * 24 * 31),
        )
    ]
    golden("rm-list-100.txt", trash.render_trash(entries, screen()))
    golden("rm-list-pipe.txt", trash.render_trash(entries, screen(terminal=False, ascii=True)))
    [first, _] = trash.json_of_trash(entries)["trash"]
    assert (first["id"], first["op"], first["removed_at"]) == (
        "w2q5c8n0fd",
        OP,
        "2027-01-15T07:57:00.000Z",
    )


def test_what_a_run_was_asked_and_did(cast, screen):
    run = cast.run("x5j2v8c0ke")
    known = {"run": run, "attempt": 1, "verb": "save", "asked_at_ms": cast.now_ms}
    asked = ControlResult(**known)
    assert control.asked_line(asked, screen()) == (
        "asked x5j2 exp05_overfit to save a checkpoint (step 180/300)"
    )
    done = ControlResult(
        **known, done_at_ms=cast.now_ms + 400, done_step=181, ok=True, outcome="checkpoint saved"
    )
    assert [
        control.answer_line(result, screen(), waited=waited)
        for result, waited in (
            (done, True),
            (asked, False),
            (asked, True),
            (ControlResult(**known, ended="failed: train/loss is NaN"), True),
        )
    ] == [
        "done at step 181, 0.4s later: checkpoint saved",
        "it will answer between two updates",
        "no answer yet; the run looks between two updates",
        "it ended before it answered: failed: train/loss is NaN",
    ]
    assert control.json_of_control(done)["done"] == {
        "at": "2027-01-15T08:00:00.400Z",
        "step": 181,
        "ok": True,
        "outcome": "checkpoint saved",
    }


def test_the_undo_of_a_mark(screen):
    undone = Op(id=OP, kind="label", what=f"label {EVIL} on 2 runs")
    result = UndoResult(op="n5c0t8r3zj", undone=undone, record=("label", f"{EVIL} off 2 runs"))
    assert ops.render_undo(result, screen()) == [
        "undid label \\x1b[31m[red]../../x on 2 runs  (op w8e2m4x7qk; this undo is op n5c0t8r3zj)",
        "  label    \\x1b[31m[red]../../x off 2 runs",
    ]
