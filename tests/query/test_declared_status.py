"""What is declared against what there is: the right rows turn stale, for the right reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expdb.index.reader import open_reader
from expdb.model import Run, RunState
from expdb.query.declared_cache import declaration
from expdb.query.declared_results import Declaration, DeclaredRun
from expdb.query.entry import NAME_IT, Entry
from expdb.query.status import store_status
from expdb.query.status_results import Reason, StatusRow
from expdb.report.status import next_commands
from expdb.report.style import Style
from expdb.store.store import Store
from tests.query.made import make_run, make_store, write_run
from tests.query.test_code_and_status import git

G = "# @package _global_\n"
FILES = {
    "conf/train.yaml": "defaults: [optim: adamw, schedule: step, expdb: default, _self_]\nseed: 0\n"
    "scale: ${oc.env:EXPDB_TEST_SCALE,1}\ntwice: ${scale}\n",
    "conf/optim/adamw.yaml": "lr: 0.003\nwd: 0.1\n",
    "conf/schedule/step.yaml": "kind: step\n",
    "conf/schedule/cosine.yaml": "kind: cosine\nmin_ratio: 0.1\n",
    "conf/exp/baseline.yaml": f"{G}expdb: {{labels: [x]}}\n",
    "conf/exp/exp01.yaml": f"{G}defaults: [baseline, _self_]\noptim: {{lr: 0.01}}\n",
    "conf/exp/exp02.yaml": f"{G}defaults: [baseline, override /schedule: cosine, _self_]\n"
    "hydra: {sweeper: {params: {seed: '0,1,2'}}}\n",
    "train.py": "import moe\n",
    "moe.py": "experts = 4\n",
    "README.md": "read me\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("EXPDB_TEST_SCALE", raising=False)
    top = tmp_path / "work"
    for name, text in FILES.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(top, "init", "-q", "-b", "main")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


@pytest.fixture
def store(project: Path) -> Store:
    return make_store(project / "runs")


@pytest.fixture
def number() -> Iterator[int]:
    return iter(range(100, 999))


def entry(project: Path) -> Entry:
    return Entry(folder=project / "conf", name="train", script="train.py")


def declare(project: Path, store: Store) -> Declaration:
    return declaration(entry(project), store.layout.index)


def run_of(project: Path, experiment: str, cell: DeclaredRun, number: int, **more: Any) -> Run:
    """Return a finished run of what is declared, pinned to the files as they stand."""
    made = make_run(f"a{number:09d}", experiment=experiment, seed=cell.seed, minutes=number)
    used = {name: git(project, "hash-object", name) for name in ("train.py", "moe.py")}
    (attempt,) = made.attempts
    attempt = replace(attempt, pin=replace(attempt.pin, used=used))
    values = {"variant": cell.variant, "digest": cell.digest, "canonical": cell.canonical} | more
    return replace(made, attempts=(attempt,), **values)


def train_all(project: Path, store: Store, number: Iterator[int]) -> None:
    for one in declare(project, store).experiments:
        for cell in one.runs:
            write_run(store, run_of(project, one.name, cell, next(number)))


def rows(project: Path, store: Store) -> list[StatusRow]:
    with open_reader(store) as reader:
        found = store_status(reader, cwd=project, head=None, declared=declare(project, store))
    return list(found.rows)


def states(project: Path, store: Store) -> dict[str, str]:
    return {f"{row.name}:{row.seed}": row.state for row in rows(project, store)}


ALL = ["baseline:0", "exp01:0", "exp02:0", "exp02:1", "exp02:2"]


def test_what_was_never_run_is_missing(project: Path, store: Store) -> None:
    assert states(project, store) == dict.fromkeys(ALL, "missing")
    assert [row.overrides for row in rows(project, store)] == [
        (), (), ("seed=0",), ("seed=1",), ("seed=2",)
    ]  # fmt: skip


def test_without_a_script_what_is_missing_says_so_and_what_is_to_do(
    project: Path, store: Store
) -> None:
    declared = declaration(Entry(folder=project / "conf", name="train"), store.layout.index)
    with open_reader(store) as reader:
        found = store_status(reader, head=None, cwd=project, declared=declared)
    faults = {row.fault for row in found.rows}
    assert faults == {"no script is known that trains train.yaml"}
    style = Style(width=100, terminal=False, ascii=True)
    assert next_commands(found, style) == [("entry", NAME_IT)]


def test_every_edit_turns_exactly_the_right_rows_stale_and_back(
    project: Path, store: Store, number: Iterator[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    train_all(project, store, number)
    green = dict.fromkeys(ALL, "up to date")
    assert states(project, store) == green

    def stale() -> dict[str, tuple[Reason, ...]]:
        found = rows(project, store)
        assert {row.state for row in found} <= {"up to date", "stale"}
        return {f"{row.name}:{row.seed}": row.reasons for row in found if row.state == "stale"}

    def edited(name: str, text: str) -> dict[str, tuple[Reason, ...]]:
        path = project / name
        before = path.read_text()
        path.write_text(text)
        found = stale()
        path.write_text(before)
        assert states(project, store) == green
        return found

    lr = Reason(kind="config", name="optim.lr", old=0.01, new=0.02)
    text = FILES["conf/exp/exp01.yaml"].replace("0.01", "0.02")
    assert edited("conf/exp/exp01.yaml", text) == {"exp01:0": (lr,)}
    ratio = Reason(kind="config", name="schedule.min_ratio", old=0.1, new=0)
    text = FILES["conf/schedule/cosine.yaml"].replace("0.1", "0")
    assert edited("conf/schedule/cosine.yaml", text) == dict.fromkeys(ALL[2:], (ratio,))
    moe = Reason(kind="file", name="moe.py")
    assert edited("moe.py", "experts = 8\n") == dict.fromkeys(ALL, (moe,))
    assert edited("README.md", "other\n") == {}
    assert edited("conf/exp/exp01.yaml", FILES["conf/exp/exp01.yaml"] + "# why\n") == {}
    monkeypatch.setenv("EXPDB_TEST_SCALE", "3")
    scale = Reason(kind="environment", name="EXPDB_TEST_SCALE", key="scale", old=1, new="3")
    twice = replace(scale, key="twice")
    assert {key: set(of) for key, of in stale().items()} == {key: {scale, twice} for key in ALL}
    monkeypatch.delenv("EXPDB_TEST_SCALE")
    assert states(project, store) == green
    (project / "moe.py").unlink()
    assert stale() == dict.fromkeys(ALL, (moe,))


def test_an_older_run_that_fits_is_found(
    project: Path, store: Store, number: Iterator[int]
) -> None:
    train_all(project, store, number)
    path = project / "conf/exp/exp01.yaml"
    path.write_text(FILES["conf/exp/exp01.yaml"].replace("0.01", "0.02"))
    train_all(project, store, number)
    path.write_text(FILES["conf/exp/exp01.yaml"])
    found = {row.name: row for row in rows(project, store)}
    assert found["exp01"].state == "up to date"
    assert found["exp01"].run is not None
    assert found["exp01"].run.id == "a000000101"


def test_what_is_up_to_date_says_what_it_lacks_and_how_its_gates_stand(
    project: Path, store: Store, number: Iterator[int]
) -> None:
    train_all(project, store, number)
    _, exp01, _ = declare(project, store).experiments
    require = {"require": ["val/loss", "train/x"], "gates": {"val/loss": {"max": 1.9}}}
    series = make_run("b" * 10, value=2.1).series
    lacking = run_of(project, "exp01", exp01.runs[0], next(number), settings=require, series=series)
    write_run(store, lacking)
    found = {f"{row.name}:{row.seed}": row for row in rows(project, store)}
    assert {row.state for row in found.values()} == {"up to date"}
    # The older run of exp01 requires nothing, and counts.
    row = found["exp01:0"]
    assert (row.run and row.run.id, row.lacks, row.gates) == ("a000000101", (), ())
    assert all(row.is_well for row in found.values())
    write_run(store, run_of(project, "exp01", exp01.runs[0], 101, settings=require, series=series))
    row = {f"{row.name}:{row.seed}": row for row in rows(project, store)}["exp01:0"]
    assert row.run is not None
    assert row.run.id == lacking.id
    assert row.lacks == ("train/x",)
    assert [(one.gate.metric, one.value, str(one.outcome)) for one in row.gates] == [
        ("val/loss", 2.1, "fail")
    ]
    assert not row.is_well


@pytest.mark.parametrize("state", ["running", "failed", "crashed", "preempted"])
def test_the_state_of_a_run_of_the_declared_config_counts(
    project: Path, store: Store, number: Iterator[int], state: str
) -> None:
    (baseline, *_) = declare(project, store).experiments
    (cell,) = baseline.runs
    made = run_of(project, "baseline", cell, next(number), state=RunState(state), ended_at_ms=None)
    write_run(store, made)
    assert states(project, store)["baseline:0"] == state
    # With another config it is not what is declared, however it ended.
    (project / "conf/exp/baseline.yaml").write_text(f"{G}optim: {{wd: 0.2}}\n")
    assert states(project, store)["baseline:0"] == "missing"


def test_what_nothing_declares_stands_beside(
    project: Path, store: Store, number: Iterator[int]
) -> None:
    train_all(project, store, number)
    (cell,) = declare(project, store).experiments[0].runs
    write_run(store, run_of(project, "baseline", cell, next(number), variant="+optim.lr=1"))
    write_run(store, run_of(project, "baseline", cell, next(number), seed=7))
    write_run(store, run_of(project, "adhoc", cell, next(number)))
    beside = [row for row in rows(project, store) if not row.is_declared]
    assert [(row.name, row.seed, row.state) for row in beside] == [
        ("adhoc", 0, "finished"), ("baseline", 7, "finished"),
        ("baseline+optim.lr=1", 0, "variant"),
    ]  # fmt: skip


@pytest.mark.slow
def test_rules_of_today_count(project: Path, store: Store, number: Iterator[int]) -> None:
    train_all(project, store, number)
    base = project / "conf/train.yaml"
    base.write_text(f"{FILES['conf/train.yaml']}device: cuda\n")
    assert set(states(project, store).values()) == {"stale"}
    base.write_text(
        f"{FILES['conf/train.yaml']}device: cuda\nexpdb: {{digest: {{ignore: [expdb, device]}}}}\n"
    )
    assert states(project, store) == dict.fromkeys(ALL, "up to date")


FAULTS = {
    "exp/broken.yaml": (f"{G}a: [1\n", "line 3: "),
    "exp/part.yaml": ("optim: {lr: 1}\n", "line 1 lacks `# @package _global_`"),
    "exp/gone.yaml": (f"{G}defaults: [override /schedule: linear]\n", "schedule=linear: no such"),
    "exp/own.yaml": (f"{G}a: ${{mine:3}}\n", "a needs the resolver mine: declare expdb.resolvers."),
    "exp/sweep.yaml": (
        f"{G}hydra: {{sweeper: {{params: {{seed: 'range(0,'}}}}}}\n",
        "hydra.sweeper.params: seed: ",
    ),
    "exp/glob.yaml": (
        f"{G}hydra: {{sweeper: {{params: {{optim: 'glob(*)'}}}}}}\n",
        "hydra.sweeper.params: optim: a glob names no values by itself",
    ),
    "exp/many.yaml": (
        f"{G}hydra: {{sweeper: {{params: {{seed: 'range(0,20000)'}}}}}}\n",
        "hydra.sweeper.params declares more than 10,000 runs",
    ),
}


def test_a_file_that_cannot_be_trained_has_a_row_that_says_why(project: Path, store: Store) -> None:
    for name, (text, _) in FAULTS.items():
        (project / "conf" / name).write_text(text)
    for _ in range(2):  # composed, and kept
        found = {row.experiment: row for row in rows(project, store)}
        for name, (_, said) in FAULTS.items():
            row = found[Path(name).stem]
            assert row.state == "invalid", name
            assert row.fault.startswith(said), row.fault
        assert found["exp01"].state == "missing"


@pytest.mark.slow
def test_resolvers_of_the_project_are_used(project: Path, store: Store) -> None:
    (project / "conf/exp/own.yaml").write_text(f"{G}a: ${{mine:3}}\n")
    base = f"{FILES['conf/train.yaml']}expdb: {{resolvers: {{mine: 'tools.res:%s'}}}}\n"
    (project / "conf/train.yaml").write_text(base % "triple")
    (project / "tools").mkdir()
    (project / "tools/res.py").write_text("def triple(number):\n    return 3 * number\n")

    def own() -> Any:
        (found,) = (one for one in declare(project, store).experiments if one.name == "own")
        return found

    (cell,) = own().runs
    assert json.loads(cell.canonical)["a"] == 9
    (project / "conf/train.yaml").write_text(base % "nothing")
    assert own().fault == "expdb.resolvers.mine: tools.res has no function nothing"
    (project / "conf/train.yaml").write_text((base % "system").replace("tools.res", "os"))
    assert own().fault.startswith("expdb.resolvers.mine: there is no module os in ")
    (project / "tools/out.py").write_text("import sys\nsys.exit(3)\n")
    (project / "conf/train.yaml").write_text((base % "mine").replace("tools.res", "tools.out"))
    assert own().fault == (
        "expdb.resolvers.mine: tools.out cannot be imported: it leaves by sys.exit"
    )
    (project / "tools/late.py").write_text("import sys\ndef mine(number):\n    sys.exit()\n")
    (project / "conf/train.yaml").write_text((base % "mine").replace("tools.res", "tools.late"))
    assert own().fault == "a resolver leaves by sys.exit"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ("{seed: 'range(0,2)'}", [("", 0), ("", 1)]),
        ("{optim.lr: '1,2'}", [("+optim.lr=1", 0), ("+optim.lr=2", 0)]),
        (
            "{optim.lr: '1,2', seed: '4,5'}",
            [("+optim.lr=1", 4), ("+optim.lr=1", 5), ("+optim.lr=2", 4), ("+optim.lr=2", 5)],
        ),
    ],
)
def test_a_sweep_is_one_run_a_combination(
    project: Path, store: Store, params: str, expected: list[tuple[str, int]]
) -> None:
    (project / "conf/exp/exp01.yaml").write_text(f"{G}hydra: {{sweeper: {{params: {params}}}}}\n")
    (one,) = (one for one in declare(project, store).experiments if one.name == "exp01")
    assert [(cell.variant, cell.seed) for cell in one.runs] == expected


def test_a_seed_that_the_config_speaks_of_is_composed_with_it(project: Path, store: Store) -> None:
    path = project / "conf/exp/exp02.yaml"
    path.write_text(f"{FILES['conf/exp/exp02.yaml']}folder: out/${{seed}}\n")
    (one,) = (one for one in declare(project, store).experiments if one.name == "exp02")
    assert [json.loads(cell.canonical)["folder"] for cell in one.runs] == [
        "out/0", "out/1", "out/2"
    ]  # fmt: skip


@pytest.mark.slow
class TestWhatIsKept:
    """Composing once, and again only what changed."""

    def test_nothing_is_composed_twice(self, project: Path, store: Store) -> None:
        first = declare(project, store)
        assert first.num_composed == 3
        again = declare(project, store)
        assert again.num_composed == 0
        assert [replace(one, sources=None) for one in first.experiments] == list(again.experiments)

    def test_an_edit_composes_what_it_concerns(self, project: Path, store: Store) -> None:
        declare(project, store)
        for name, count in (
            ("conf/exp/exp02.yaml", 1),
            ("conf/exp/baseline.yaml", 3),
            ("conf/schedule/cosine.yaml", 1),
            ("conf/train.yaml", 3),
            ("README.md", 0),
        ):
            path = project / name
            path.write_text(path.read_text() + "# more\n")
            assert declare(project, store).num_composed == count, name
        (project / "conf/exp/exp03.yaml").write_text(f"{G}defaults: [exp02]\n")
        assert declare(project, store).num_composed == 1
        (project / "conf/exp/exp03.yaml").unlink()
        assert len(declare(project, store).experiments) == 3

    def test_a_file_that_comes_where_another_was_taken_counts(
        self, project: Path, store: Store
    ) -> None:
        """`expdb: default` is the package's until the project has one of its own."""
        declare(project, store)
        (project / "conf/expdb").mkdir()
        (project / "conf/expdb/default.yaml").write_text("digest: {ignore: [scale, twice]}\n")
        found = declare(project, store)
        assert found.num_composed == 3
        assert found.experiments[0].ignore == ("scale", "twice")

    @pytest.mark.parametrize("spoil", ["", "{", '{"format": 1, "sha256": "0", "kept": "{}"}'])
    def test_a_damaged_file_is_made_anew(self, project: Path, store: Store, spoil: str) -> None:
        first = declare(project, store)
        (kept,) = store.layout.index.glob("declared-*.json")
        text = kept.read_text()
        kept.write_text(spoil)
        assert declare(project, store).num_composed == 3
        kept.write_text(text.replace("0.003", "0.004"))
        assert declare(project, store).num_composed == 3
        assert declare(project, store).experiments[0].runs == first.experiments[0].runs

    def test_the_value_of_a_variable_is_not_kept(
        self, project: Path, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = project / "conf/exp/exp01.yaml"
        path.write_text(f"{G}api_key: ${{oc.env:EXPDB_TEST_TOKEN,none}}\n")
        monkeypatch.setenv("EXPDB_TEST_TOKEN", "FAKE-0001")
        declare(project, store)
        (kept,) = store.layout.index.glob("declared-*.json")
        assert "FAKE-0001" not in kept.read_text()
        monkeypatch.setenv("EXPDB_TEST_TOKEN", "FAKE-0002")
        assert declare(project, store).num_composed == 0
