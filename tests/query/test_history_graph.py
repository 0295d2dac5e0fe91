"""Trees of runs: who hangs on whom, what changed, and what came of it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expdb.index.reader import open_reader
from expdb.model import Attempt, Pin, Run, RunAt, RunState
from expdb.query.family import grouped
from expdb.query.history import history
from expdb.query.history_results import History, Node
from expdb.query.results import ABSENT, Outcome
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.store import Store
from tests.query.conftest import BASELINE_CURVE, CAST, DATA, NOISE, cast_run
from tests.query.made import make_run, make_store, write_run

PARENTS = {"h4q8z1rn6c": "t1h6y3cz8r"}
ROOT = "k3f9x2m7qd"


def tree(store: Store, **asked: Any) -> History:
    with open_reader(store) as reader:
        return history(reader, cwd=store.root.parent, **asked)


def run(id: str, *, lr: float = 0.003, seed: int | None = 0, **more: Any) -> Run:
    config = {"seed": seed, "optim": {"lr": lr}}
    return make_run(id, seed=seed, **{"settings": NOISE, "config": config, "value": 1.85, **more})


def write_all(store: Store, *runs: Run) -> None:
    for at, one in enumerate(runs):
        created = 1_795_000_000_000 + at * 60_000
        write_run(store, replace(one, created_at_ms=created))


def shape(found: History) -> list[str]:
    """Return one text a node: its depth, ids and, of a child, the parent's first id."""
    out = []
    for node in found.nodes:
        above = "" if node.parent is None else f" < {found.nodes[node.parent].lead.id[:4]}"
        out.append("  " * node.depth + " ".join(row.id[:4] for row in node.rows) + above)
    return out


def at(found: History, run: str) -> Node:
    return next(node for node in found.nodes if any(row.id.startswith(run) for row in node.rows))


@pytest.fixture(scope="module")
def cast_history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """The cast, with k3f9 as the parent of all but h4q8."""
    store = make_store(tmp_path_factory.mktemp("graph") / "runs")
    for name, *_ in CAST:
        parent = None if name == ROOT else PARENTS.get(name, ROOT)
        points = {"val/loss": BASELINE_CURVE} if name == ROOT else None
        write_run(store, cast_run(name, parent=parent), points=points)
    return tree(store, head=RunAt(run=ROOT))


def test_the_cast_is_one_tree_with_its_seeds_folded(cast_history: History) -> None:
    assert shape(cast_history) == [
        "k3f9 m8c2 p2x7",
        "  t1h6 < k3f9",
        "    h4q8 < t1h6",
        "  d6v3 q9r1 f0n6 < k3f9",
        "  e7s5 < k3f9",
        "  b3w9 < k3f9",
        "  v8k2 < k3f9",
        "  a9m4 < k3f9",
        "  c7t3 < k3f9",
        "  g2z8 < k3f9",
        "  x5j2 < k3f9",
    ]
    assert [node.is_last for node in cast_history.nodes] == [
        True, False, True, *[False] * 7, True,
    ]  # fmt: skip


def test_the_effect_is_against_the_same_seeds_where_those_exist(cast_history: History) -> None:
    seeds = at(cast_history, "d6v3")
    assert seeds.value == pytest.approx((1.841 + 1.868 + 1.851) / 3)
    assert seeds.against == ("k3f9x2m7qd", "m8c2v5tq1n", "p2x7d9wk4h")
    assert seeds.delta is not None
    assert seeds.delta.value == pytest.approx(-0.00267, abs=1e-5)
    assert seeds.delta.outcome is Outcome.NO_DIFFERENCE
    others = at(cast_history, "m8c2")
    assert (others.against, others.delta) == ((), None)
    assert at(cast_history, "h4q8").against == ("t1h6y3cz8r",)
    assert at(cast_history, "h4q8").delta.outcome is Outcome.BETTER  # type: ignore[union-attr]


def test_an_unfinished_run_is_measured_at_its_step_without_an_outcome(
    cast_history: History,
) -> None:
    for run, delta in (("a9m4", -0.013), ("x5j2", 0.299)):
        node = at(cast_history, run)
        assert node.delta is not None
        assert node.delta.value == pytest.approx(delta)
        assert (node.delta.at_step, node.delta.outcome) == (150, None)
    assert at(cast_history, "c7t3").delta is None


def test_what_changed_is_named_by_key_and_never_by_seed(cast_history: History) -> None:
    changed = {node.lead.id[:4]: node for node in cast_history.nodes}
    (lr,) = changed["t1h6"].config
    assert (lr.key, lr.before, lr.after) == ("optim.lr", 0.003, 0.01)
    assert [(c.before, c.after) for c in changed["h4q8"].config] == [(0.01, 0.005)]
    assert [c.key for c in changed["d6v3"].config] == ["schedule.kind"]
    assert changed["k3f9"].config == ()
    assert not changed["k3f9"].seed_differs
    assert changed["a9m4"].is_same
    assert not changed["v8k2"].is_same
    assert changed["g2z8"].code is not None
    assert changed["g2z8"].code.num_files is None
    assert changed["t1h6"].code is None


def test_seeds_of_one_config_are_siblings_however_they_were_recorded(store: Store) -> None:
    """A chain of seeds hangs where its first hangs; another code, fork or name is a child."""
    base = run("k3f9x2m7qd")
    first = run("t1h6y3cz8r", experiment="exp01", lr=0.01, parent=base.id)
    second = run("t1h6y3cz8s", experiment="exp01", lr=0.01, seed=1, parent=first.id)
    third = run("t1h6y3cz8t", experiment="exp01", lr=0.01, seed=2, parent=second.id)
    code = run("v8k2h5d3rt", experiment="exp01", lr=0.01, seed=3, parent=first.id, tree="7" * 40)
    again = run("w8k2h5d3rt", experiment="exp01", lr=0.01, seed=0, parent=first.id)
    write_all(store, base, first, second, third, code, again)
    assert shape(tree(store)) == [
        "k3f9",
        "  t1h6 t1h6 t1h6 < k3f9",
        "    v8k2 < t1h6",
        "    w8k2 < t1h6",
    ]


def test_a_circle_of_seeds_ends(store: Store) -> None:
    left = run("t1h6y3cz8r", parent="t1h6y3cz8s")
    right = run("t1h6y3cz8s", seed=1, parent="t1h6y3cz8r")
    write_all(store, left, right)
    assert sorted(row.id for node in tree(store).nodes for row in node.rows) == [
        "t1h6y3cz8r", "t1h6y3cz8s",
    ]  # fmt: skip


def test_a_band_is_narrower_for_more_seeds(store: Store) -> None:
    base = [run(f"k3f9x2m7q{s}", seed=s, value=1.850) for s in range(4)]
    children = [
        run(f"t1h6y3cz8{s}", experiment="exp01", lr=0.01, seed=s, value=1.864, parent=base[0].id)
        for s in range(4)
    ]
    write_all(store, *base, *children)
    found = tree(store)
    assert at(found, "t1h6").delta.outcome is Outcome.WORSE  # type: ignore[union-attr]
    alone = tree(store, where="r.seed = 0")
    assert alone.nodes[-1].delta.outcome is Outcome.NO_DIFFERENCE  # type: ignore[union-attr]


def test_the_same_seed_with_other_code_is_no_counterpart(store: Store) -> None:
    base, other = run("k3f9x2m7qd"), run("m8c2v5tq1n", seed=1, tree="7" * 40, value=1.9)
    child = run("t1h6y3cz8r", experiment="exp01", seed=1, lr=0.01, parent=base.id)
    write_all(store, base, other, child)
    assert at(tree(store), "t1h6").against == (base.id,)


def test_other_data_to_measure_on_leave_no_outcome(store: Store) -> None:
    base = run("k3f9x2m7qd", data=DATA)
    child = run("t1h6y3cz8r", data={**DATA, "val": "sha256:77"}, value=1.0, parent=base.id)
    more = run("v8k2h5d3rt", data={**DATA, "train": "sha256:77"}, value=1.0, parent=base.id)
    write_all(store, base, child, more)
    found = tree(store)
    assert at(found, "t1h6").data == ("val",)
    assert at(found, "t1h6").delta.outcome is Outcome.INCONCLUSIVE  # type: ignore[union-attr]
    assert at(found, "v8k2").delta.outcome is Outcome.BETTER  # type: ignore[union-attr]


def test_without_a_known_band_nothing_is_called_better(store: Store) -> None:
    base = run("k3f9x2m7qd", settings={"seed_key": "seed"})
    child = run("t1h6y3cz8r", value=1.0, parent=base.id, settings={"seed_key": "seed"})
    write_all(store, base, child)
    assert at(tree(store), "t1h6").delta.outcome is Outcome.INCONCLUSIVE  # type: ignore[union-attr]


def test_todays_rules_say_which_keys_count(store: Store) -> None:
    config = {"seed": 0, "loop": {"device": "cpu", "num": True}, "x": [1, 2]}
    base = run("k3f9x2m7qd", config=config)
    rules = {"seed_key": "seed", "digest": {"ignore": ["loop.device"]}}
    changed = {"seed": 0, "loop": {"device": "cuda", "num": 1, "new": None}}
    write_all(store, base, run("t1h6y3cz8r", config=changed, parent=base.id, settings=rules))
    changes = at(tree(store), "t1h6").config
    assert [(c.key, c.before, c.after) for c in changes] == [
        ("loop.num", True, 1),
        ("loop.new", ABSENT, None),
        ("x", [1, 2], ABSENT),
    ]


def test_a_parent_that_is_not_in_the_store_makes_a_root(store: Store) -> None:
    write_all(store, run("k3f9x2m7qd", parent="z9x4z9x4z9"), run("t1h6y3cz8r"))
    found = tree(store)
    assert shape(found) == ["k3f9", "t1h6"]
    assert at(found, "k3f9").lost_parent == "z9x4z9x4z9"
    assert at(found, "t1h6").lost_parent is None


@pytest.mark.parametrize(
    ("parents", "drawn"),
    [
        (["a"], ["a"]),
        (["b", "a"], ["a", "  b < a"]),
        (["c", "a", "b", "c"], ["a", "  b < a", "    c < b", "      d < c"]),
        (["b", "c", "b"], ["b", "  a < b", "  c < b"]),
    ],
)
def test_a_circle_of_parents_is_cut_at_its_oldest_run(
    store: Store, parents: list[str], drawn: list[str]
) -> None:
    ids = {name: name + "000000000" for name in "abcd"}
    runs = [
        run(ids[name], experiment=f"e{name}", parent=ids[parent])
        for name, parent in zip("abcd", parents, strict=False)
    ]
    write_all(store, *runs)
    found = tree(store)
    assert [line.replace("000", "") for line in shape(found)] == drawn
    assert [node.is_cycle for node in found.nodes] == [True] + [False] * (len(parents) - 1)


def test_a_chain_of_a_thousand_parents_is_drawn(store: Store) -> None:
    write_all(store, run("k3f9x2m7qd"))
    row = tree(store).nodes[0].lead
    ids = [f"a{at:09d}" for at in range(1000)]
    rows = [
        replace(row, id=id, parent=above, created_at_ms=at)
        for at, (id, above) in enumerate(zip(ids, [None, *ids[:-1]], strict=True))
    ]
    groups = grouped(rows[::-1], lambda one: None)
    assert [group.depth for group in groups] == list(range(1000))


def test_a_limit_keeps_the_newest_and_their_ancestors(store: Store) -> None:
    first = run("k3f9x2m7qd")
    second = run("t1h6y3cz8r", experiment="exp01", parent=first.id)
    others = [run(f"b3w9t6d1z{n}", experiment=f"e{n}") for n in range(3)]
    write_all(store, first, *others, second)
    found = tree(store, limit=1)
    assert shape(found) == ["k3f9", "  t1h6 < k3f9"]
    assert (found.num_shown, found.num_all) == (1, 5)
    filtered = tree(store, where="r.experiment = ?", params=["exp01"])
    assert shape(filtered) == shape(found)
    assert (filtered.num_shown, filtered.num_all) == (1, 1)


def test_a_repeat_of_a_seed_and_a_run_without_value_stand_alone(store: Store) -> None:
    base = run("k3f9x2m7qd")
    one = [run(f"t1h6y3cz8{s}", experiment="e", seed=s, parent=base.id) for s in (0, 1)]
    again = run("v8k2h5d3rt", experiment="e", seed=1, parent=base.id)
    empty = run("x5j2v8c0ke", experiment="e", seed=2, parent=base.id, value=None)
    forked = run("g2z8r5n1fs", experiment="e", seed=3, parent=base.id)
    write_all(store, base, *one, again, empty, forked)
    path = RunLayout(StoreLayout(store.root).run_dir("e", forked.id)).run_json
    write_json(path, {**read_json(path), "fork": {"run": base.id, "step": 150}})
    found = tree(store)
    below = [line.strip().split(" <")[0] for line in shape(found)[1:]]
    assert below == ["t1h6 v8k2", "t1h6", "x5j2", "g2z8"]
    assert at(found, "g2z8").fork == RunAt(run=base.id, step=150)


def test_an_empty_store_has_no_nodes(store: Store) -> None:
    found = tree(store)
    assert (found.nodes, found.num_all, found.metric) == ((), 0, None)


def git(top: Path, *args: str) -> str:
    words = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args]
    done = subprocess.run(words, cwd=top, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_files_are_counted_between_trees_of_the_repository(tmp_path: Path) -> None:
    top = tmp_path / "work"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    trees = []
    for names in (("a",), ("a", "b\nc"), ("a", "b\nc", "d")):
        for name in names:
            (top / name).write_text(f"{len(names)}\n")
        git(top, "add", "-A")
        git(top, "commit", "-qm", "x")
        trees.append(git(top, "rev-parse", "HEAD^{tree}"))
    store = make_store(top / "runs")
    runs = []
    for number, made in enumerate([*trees, trees[2], "5" * 40]):
        pin = Pin(commit="4be1f02" + "0" * 33, tree=made, branch="main")
        parent = runs[number - 1].id if runs else None
        one = run(f"k3f9x2m7q{number}", experiment=f"e{number}", parent=parent)
        runs.append(replace(one, attempts=(Attempt(number=1, pin=pin),)))
    write_all(store, *runs)
    found = tree(store)
    counts = [node.code.num_files if node.code else "same" for node in found.nodes]
    assert counts == ["same", 2, 3, "same", None]
    assert found.nodes[0].code_at == "main 4be1f02"


def test_a_node_that_never_finished_keeps_its_parents_value(store: Store) -> None:
    base = run("k3f9x2m7qd", state=RunState.FAILED, reason="x")
    write_all(store, base, run("t1h6y3cz8r", parent=base.id))
    assert at(tree(store), "t1h6").delta is None
