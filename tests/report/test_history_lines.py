"""`log --graph` as text and as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from expdb.model import RunAt, RunState
from expdb.query.history_results import CodeChange, History, KeyChange, Node
from expdb.query.results import ABSENT, Delta, Outcome
from expdb.report import graph, json_history
from expdb.report.json import dumps
from expdb.text import cells

NOISE, WORSE, BETTER = Outcome.NO_DIFFERENCE, Outcome.WORSE, Outcome.BETTER


def key(name: str, before: object = ABSENT, after: object = ABSENT) -> KeyChange:
    return KeyChange(key=name, before=before, after=after)


SCHEDULE = (
    key("schedule.kind", "multi_step", "cosine"),
    key("schedule.min_ratio", ABSENT, 0.1),
    key("schedule.factors", [0.316, 0.1]),
    key("schedule.fractions", [0.8, 0.9]),
)
MOE = (key("model.kind", "dense", "moe"), *(key(f"model.x{n}", ABSENT, n) for n in range(4)))
TREES = CodeChange(before="9" * 40, after="5" * 40, num_files=4)

# ids, parent's place, delta, outcome or None, what else
TREE: tuple[tuple[str, int | None, float | None, Outcome | None, dict[str, object]], ...] = (
    ("k3f9", None, None, None, {"code_at": "main 4be1f02"}),
    ("m8c2 p2x7", 0, 0.012, NOISE, {"repeats_name": True, "seed_differs": True}),
    ("t1h6", 0, 0.180, WORSE, {"config": (key("optim.lr", 0.003, 0.01),)}),
    ("h4q8", 2, -0.126, BETTER, {"config": (key("optim.lr", 0.01, 0.005),)}),
    ("d6v3 q9r1 f0n6", 0, -0.003, NOISE, {"config": SCHEDULE, "seed_differs": True}),
    ("e7s5", 0, 1.023, WORSE, {"config": (key("schedule.jump", 1, 30),)}),
    ("b3w9", 0, 0.011, NOISE, {"config": (key("data.bad_batches", 0, 3),)}),
    ("v8k2", 0, 0.004, NOISE, {"config": MOE}),
    ("a9m4", 0, -0.013, None, {"config": MOE, "is_same": True, "seed_differs": True}),
    ("c7t3", 0, None, None, {"config": (key("loop.precision", "fp32", "fp16"),)}),
    ("g2z8", 0, -0.009, NOISE, {"config": (key("loop.z_loss", ABSENT, 0.0001),), "code": TREES}),
    ("x5j2", 0, 0.299, None, {"config": (key("data.limit_bytes", None, 12000),)}),
)


def make_history(cast, entries=TREE, metric="val/loss") -> History:
    rows = {row.id[:4]: row for row in cast.rows}
    nodes = []
    for at, (ids, parent, delta, outcome, more) in enumerate(entries):
        found = tuple(rows[id] for id in ids.split())
        if parent is not None:
            found = tuple(replace(row, parent=nodes[parent].lead.id) for row in found)
        children = tuple(n for n, entry in enumerate(entries) if entry[1] == at)
        siblings = [n for n, entry in enumerate(entries) if entry[1] == parent]
        made = None
        if delta is not None:
            step = None if outcome else 150
            made = Delta(value=delta, outcome=outcome, at_step=step)
        values = [row.value for row in found]
        node = Node(
            rows=found,
            parent=parent,
            children=children,
            depth=0 if parent is None else nodes[parent].depth + 1,
            is_last=siblings[-1] == at,
            value=sum(values) / len(values),
            delta=made,
        )
        nodes.append(replace(node, **more))
    num = sum(len(node.rows) for node in nodes)
    return History(nodes=tuple(nodes), num_shown=num, num_all=num, metric=metric)


def test_the_graph_at_100_columns(cast, screen, golden):
    lines = graph.render(make_history(cast), screen())
    assert max(cells(line) for line in lines) <= 100
    golden("log-graph-100.txt", lines)


@pytest.mark.parametrize("width", [80, 60])
def test_narrower_the_changes_stand_under_the_run(cast, screen, golden, width):
    lines = graph.render(make_history(cast), screen(width=width))
    assert max(cells(line) for line in lines) <= width
    golden(f"log-graph-{width}.txt", lines)


def test_in_a_pipe_it_is_ascii_with_every_name(cast, screen, golden):
    lines = graph.render(make_history(cast), screen(terminal=False, ascii=True))
    golden("log-graph-pipe.txt", lines)
    assert all(line.isascii() for line in lines)
    assert "|- m8c2 p2x7  baseline  seeds 1-2" in "\n".join(lines)


def test_colour_never_moves_a_column(cast, screen):
    plain = graph.render(make_history(cast), screen())
    coloured = graph.render(make_history(cast), screen(color=True))
    assert coloured != plain
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == plain


def test_nothing_is_no_line(cast, screen):
    empty = History(nodes=(), num_shown=0, num_all=0, metric=None)
    assert graph.render(empty, screen()) == []


def one(cast, screen, *, width=100, **more):
    """Return the line of t1h6 below k3f9."""
    entries = (TREE[0], (*TREE[2][:4], {**TREE[2][4], **more}))
    return graph.render(make_history(cast, entries), screen(width=width))[2]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"config": (), "code": TREES}, "code 4 files"),
        ({"config": (), "code": replace(TREES, num_files=1)}, "code 1 file"),
        (
            {"config": (), "code": replace(TREES, num_files=None), "code_at": "main 7c1e88a+"},
            "code main 7c1e88a+",
        ),
        ({"config": (), "data": ("val",)}, "data val"),
        ({"config": ()}, "nothing: a repeat"),
        ({"config": (), "seed_differs": True}, "seed"),
        ({"seed_differs": True, "against": ("k3f9x2m7qd",)}, "optim.lr 0.003 → 0.01; seed 0"),
        ({"seed_differs": True, "against": ("m8c2v5tq1n",)}, "optim.lr 0.003 → 0.01"),
        ({"config": (key("a", True, 1), key("b", 1, 2))}, "a true → 1 and 1 more"),
    ],
)
def test_what_changed_is_said_in_words(cast, screen, more, said):
    assert one(cast, screen, **more).split("worse", 1)[1].strip() == said


def test_values_leave_before_a_key_does(cast, screen):
    long = (key("optim.lr", "x" * 24, "y" * 24), key("b", 1, 2))
    assert one(cast, screen, config=long).endswith("  optim.lr and 1 more")
    far = (key("k" * 80, 1, 2),)
    line = one(cast, screen, config=far)
    assert line.endswith("…")
    assert cells(line) <= 100


def test_a_fork_says_where(cast, screen):
    assert "  exp01  (fork @300)  " in one(cast, screen, fork=RunAt(run="k3f9x2m7qd", step=300))
    elsewhere = RunAt(run="m8c2v5tq1n", step=300)
    assert "  (fork m8c2@300)  " in one(cast, screen, fork=elsewhere)
    assert "  (fork)  " in one(cast, screen, fork=RunAt(run="k3f9x2m7qd", step=None))


def test_a_root_without_its_parent_and_a_circle_say_so(cast, screen):
    lost = ("t1h6", None, None, None, {"lost_parent": "z9\x1b9"})
    circle = ("v8k2", None, None, None, {"is_cycle": True})
    lines = graph.render(make_history(cast, (lost, circle)), screen())
    assert lines[1].endswith("parent z9\\x1b9 is not in this store")
    assert lines[2].endswith("damaged: its parents go in a circle")


def test_hostile_names_are_text_and_long_ones_are_cut_in_the_middle(cast, screen):
    history = make_history(cast)
    evil = replace(history.nodes[2].rows[0], experiment="\x1b[31m[b]\u202e漢字")
    long = replace(history.nodes[5].rows[0], experiment="exp03" + "+a.b=1" * 20)
    nodes = list(history.nodes)
    nodes[2], nodes[5] = replace(nodes[2], rows=(evil,)), replace(nodes[5], rows=(long,))
    for width in (100, 80, 60):
        lines = graph.render(replace(history, nodes=tuple(nodes)), screen(width=width))
        assert max(cells(line) for line in lines) <= width
        assert not any("\x1b" in line or "\u202e" in line for line in lines)
        assert any("…" in line and "=1" in line for line in lines)


def test_a_deep_tree_and_many_seeds_stay_on_the_line(cast, screen):
    entries = [TREE[0]]
    entries += [("v8k2", at, 0.004, NOISE, {"config": MOE}) for at in range(40)]
    lines = graph.render(make_history(cast, tuple(entries)), screen())
    assert max(cells(line) for line in lines) <= 100
    row = cast.rows[4]
    many = tuple(replace(row, seed=seed) for seed in (0, 1, 2, 4, 7, 8))
    history = make_history(cast)
    node = replace(history.nodes[1], rows=many)
    lines = graph.render(replace(history, nodes=(history.nodes[0], node)), screen())
    assert "v8k2 v8k2 v8k2 v8k2 +2  seeds 0-2,4,7-8" in lines[2]


def test_a_run_with_another_objective_has_no_number(cast, screen):
    history = make_history(cast, metric="val/acc")
    assert not any("1.848" in line or "+0.180" in line for line in graph.render(history, screen()))


def test_as_json_every_node_has_its_place_changes_and_effect(cast):
    data = json.loads(dumps(json_history.history(make_history(cast))))
    assert data["schema_version"] == 1
    assert (data["num_all"], data["metric"]) == (15, "val/loss")
    nodes = {node["id"][:4]: node for node in data["nodes"]}
    seeds = nodes["d6v3"]
    assert seeds["runs"] == ["d6v3m9s2xk", "q9r1c4h7tb", "f0n6k8y5wj"]
    assert (seeds["parent"], seeds["seeds"]) == ("k3f9x2m7qd", [0, 1, 2])
    assert seeds["outcome"] == "no_difference"
    assert seeds["changes"]["config"][1] == {
        "key": "schedule.min_ratio",
        "values": [None, 0.1],
        "absent": [0],
    }
    assert nodes["t1h6"]["children"] == ["h4q8z1rn6c"]
    assert nodes["t1h6"]["delta"] == pytest.approx(0.18)
    assert nodes["c7t3"]["value"] == "NaN"
    assert nodes["c7t3"]["delta"] is None
    assert (nodes["a9m4"]["at_step"], nodes["a9m4"]["outcome"]) == (150, None)
    assert nodes["g2z8"]["changes"]["code"]["files"] == 4
    assert nodes["k3f9"]["parent"] is None
    assert nodes["x5j2"]["state"] == RunState.RUNNING
