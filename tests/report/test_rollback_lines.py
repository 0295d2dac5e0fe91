from __future__ import annotations

from dataclasses import replace

import pytest

from expdb.actions.results import (
    BaselineResult,
    BlockedPath,
    OpRow,
    PlanPath,
    RollbackPlan,
    RollbackResult,
    UndoResult,
    WorktreeResult,
)
from expdb.model import Checkpoint, Op, RunAt
from expdb.query.compare_results import ConfigDiff
from expdb.query.results import ABSENT
from expdb.query.target import Target
from expdb.report import ops, rollback

OP, UNDO = "w8e2m4x7qk", "n5c0t8r3zj"
WEIGHTS = "exp=baseline/run=k3f9x2m7qd/checkpoints/step=300"


def make_plan(cast, **change):
    baseline = cast.run("k3f9x2m7qd", command=("python", "train.py", "+exp=baseline"))
    made = RollbackPlan(
        target=Target(
            run=baseline,
            step=300,
            value=1.848,
            source="ref baseline",
            why=(
                "g2z8 exp07_zloss 1.839 and d6v3 exp02_cosine 1.841 are not better beyond noise"
                " ±0.022",
            ),
        ),
        commit=cast.first,
        tree="9d41c7e" + "d" * 33,
        base_commit=cast.first,
        branch="main",
        head_commit=cast.second,
        num_edits=3,
        paths=(
            PlanPath(path="expdb/demo/data.py", action="change", note="committed in 7c1e88a"),
            PlanPath(path="train.py", action="change", note="edited"),
            PlanPath(path="conf/exp/exp07_zloss.yaml", action="delete", note="untracked"),
            PlanPath(path="zloss.py", action="delete", note="untracked"),
        ),
        blocked=(),
        own_paths=(),
        config_of=cast.run("g2z8r5n1fs"),
        config=(ConfigDiff(key="loop.z_loss", values=(0.0001, ABSENT), differs=True),),
        checkpoint=Checkpoint(step=300, bytes=4_600_000, complete=True),
        checkpoint_path=WEIGHTS,
        nothing_to_do=False,
    )
    return replace(made, **change)


def make_result(cast, **change):
    made = RollbackResult(
        op=OP,
        how="done",
        kind="rollback",
        what="rollback to k3f9 baseline@300",
        num_paths=4,
        num_left=4,
        tree="9d41c7e" + "d" * 33,
        undo_ref=f"refs/expdb/undo/{OP}",
        seconds=0.4,
        plan=make_plan(cast),
        run="k3f9x2m7qd",
        step=300,
    )
    return replace(made, **change)


def test_the_plan_names_every_path(cast, screen, golden):
    golden("rollback-plan.txt", rollback.render_plan(make_plan(cast), screen()))


def test_the_plan_in_a_pipe_is_ascii(cast, screen):
    lines = rollback.render_plan(make_plan(cast), screen(terminal=False, ascii=True))
    assert all(line.isascii() for line in lines)
    assert any("loop.z_loss 0.0001 -> -" in line for line in lines)


def test_what_is_in_the_way_replaces_the_plan(cast, screen, golden):
    blocked = (
        BlockedPath(
            path="data/vocab.json",
            reason="ignored by git: no copy of it exists, 212 kB",
            savable=True,
        ),
        BlockedPath(
            path="conf/model",
            reason="a folder where a file must go, 3 unsaved files in it",
            savable=False,
        ),
    )
    plan = make_plan(cast)
    extra = PlanPath(path="data/vocab.json", action="change")
    plan = replace(plan, paths=(*plan.paths, extra), blocked=blocked)
    golden("rollback-blocked.txt", rollback.render_plan(plan, screen()))


def test_more_than_20_paths_are_counted_by_folder(cast, screen):
    paths = tuple(
        PlanPath(path=f"{folder}/f{at}.py", action=action)
        for folder, action in (("src/a", "change"), ("src/b", "delete"))
        for at in range(15)
    )
    plan = make_plan(cast, paths=paths)
    lines = [line.strip() for line in rollback.render_plan(plan, screen())]
    assert "src/a/  15 change" in lines
    assert "src/b/  15 delete" in lines
    assert "by name: --all" in lines
    every = rollback.render_plan(plan, screen(), all=True)
    assert sum("f1" in line for line in every) == 12


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (0, "nothing is edited; expdb undo comes back here"),
        (1, "the 1 edit is saved first; expdb undo brings it back"),
        (3, "all 3 edits are saved first; expdb undo brings them back"),
    ],
)
def test_the_promise_counts_the_edits(cast, edits, said):
    assert rollback.promise(make_plan(cast, num_edits=edits)) == said


def test_a_detached_work_tree_and_a_snapshot_target_are_named(cast, screen):
    plan = make_plan(cast, branch="detached", num_edits=0, commit="0d57b3a" + "c" * 33)
    lines = rollback.render_plan(plan, screen())
    assert "now      detached at 7c1e88a, clean" in lines
    assert "code     4 paths, to tree 9d41c7e of snapshot 0d57b3a" in lines
    assert lines[-1].startswith("stays    HEAD and its commits")


def test_the_result_says_what_came_back(cast, screen, golden):
    lines = rollback.render_result(make_result(cast), screen(), checkpoint_path=f"runs/{WEIGHTS}")
    golden("rollback-result.txt", lines)


def test_a_continued_rollback_says_how_much_was_left(cast, screen):
    result = make_result(cast, how="continued", num_left=2, plan=None)
    assert rollback.render_result(result, screen()) == [
        "rolled back to k3f9 baseline@300  (op w8e2m4x7qk, 2 paths were left)"
    ]


def test_an_aborted_rollback_says_what_was_taken_back(cast, screen):
    result = make_result(cast, how="aborted", num_left=3, plan=None)
    assert rollback.render_result(result, screen()) == [
        "took back rollback to k3f9 baseline@300  (op w8e2m4x7qk, 1 path was done)"
    ]


def test_next_commands_are_complete(cast, screen):
    plan = make_plan(cast)
    longer = replace(plan.target.run, canonical='{"loop":{"max_steps":300}}')
    plan = replace(plan, target=replace(plan.target, run=longer))
    assert rollback.next_commands(make_result(cast, plan=plan), screen()) == [
        (
            "continue",
            "python train.py +exp=baseline expdb.fork=k3f9@300 loop.max_steps=600",
        ),
        ("retrain", "expdb rerun k3f9"),
        ("undo", "expdb undo"),
        ("rescue", f"git restore --source=refs/expdb/undo/{OP} -- ."),
    ]


def test_a_fresh_work_tree(cast, screen, golden):
    plan = make_plan(cast)
    made = WorktreeResult(
        path="/x/at-k3f9",
        target=plan.target,
        commit=plan.commit,
        tree=plan.tree,
        op=OP,
        checkpoint=plan.checkpoint,
        checkpoint_path=WEIGHTS,
    )
    lines = rollback.render_worktree(made, screen(), path="../at-k3f9", weights=f"runs/{WEIGHTS}")
    assert lines[0] == f"made ../at-k3f9 at k3f9x2m7qd baseline@300  (op {OP})"
    made = replace(made, branch="again", submodules=("lib",))
    shown = rollback.render_worktree(made, screen(), path="../a b", weights=f"runs/{WEIGHTS}")
    following = [f"{label + ':':<11}{c}" for label, c in rollback.next_in_worktree(made, "../a b")]
    golden("rollback-worktree.txt", [*shown, "", *following])


def make_op(run_id: str, cast, **change) -> OpRow:
    made = OpRow(
        id=run_id,
        kind="rollback",
        created_at_ms=cast.now_ms - 120_000,
        what="rollback to k3f9 baseline@300",
        num_paths=4,
        state="done",
        undone_by=None,
        can_undo=True,
        is_here=False,
        other_work_tree=False,
        who="",
        host="",
    )
    return replace(made, **change)


def test_ops_are_a_table(cast, screen, golden):
    rows = [
        make_op(UNDO, cast, kind="undo", what="undo of w8e2", is_here=True),
        make_op(OP, cast, undone_by=UNDO, can_undo=False, created_at_ms=cast.now_ms - 540_000),
        make_op("c4r8t2v6wx", cast, state="unfinished", can_undo=False),
        make_op("d4r8t2v6wx", cast, state="aborted", can_undo=False),
        make_op("e4r8t2v6wx", cast, other_work_tree=True, can_undo=False),
        make_op(
            "b0v4t2v6wx",
            cast,
            kind="baseline",
            num_paths=None,
            what="baseline → k3f9 (was none)",
            created_at_ms=cast.now_ms - 2 * 86_400_000,
        ),
    ]
    golden("ops.txt", ops.render_ops(rows, screen()))
    golden("ops-pipe.txt", ops.render_ops(rows, screen(terminal=False, ascii=True)))


def test_undo_says_what_was_restored(screen, golden):
    undone = Op(id=OP, kind="rollback", what="rollback to k3f9@300")
    result = UndoResult(op=UNDO, undone=undone, num_changed=2, num_created=2, num_staged=1)
    golden("undo.txt", ops.render_undo(result, screen()))


def test_undo_of_a_ref_says_where_it_is(screen):
    undone = Op(id=OP, kind="baseline", what="baseline → k3f9 (was none)")
    result = UndoResult(op=UNDO, undone=undone, ref="baseline", ref_before=RunAt(run="k3f9x2m7qd"))
    assert ops.render_undo(result, screen())[1] == "  baseline none, as before"


def test_baseline_says_what_it_was(cast, screen):
    made = BaselineResult(
        before=None, after=RunAt(run="k3f9x2m7qd"), op=OP, run=cast.run("k3f9x2m7qd")
    )
    assert ops.render_baseline(made, screen()) == ["baseline → k3f9 baseline (was none)"]
    again = replace(made, before=made.after, op=None)
    assert ops.render_baseline(again, screen()) == ["baseline → k3f9 baseline (as it was)"]
