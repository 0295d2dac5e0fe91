"""Declared experiments of every kind, sound and not: each has a row, and none a traceback."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from expdb.actions.conf_check import ConfReport, ConfRow, check_conf
from expdb.actions.conf_detail import explain
from expdb.errors import BadInput, NotFound
from expdb.query.composed_files import Unreadable, read_config_file
from expdb.query.entry import Entry, find_entry, hydra_main
from expdb.store.files import read_json, write_json

if TYPE_CHECKING:
    from conftest import World

G = "# @package _global_\n"
TRAIN = """\
defaults:
  - optim: adamw
  - schedule: step
  - expdb: default
  - _self_
seed: 0
loop: {max_steps: 300}
tracker: {api_key: FAKE-KEY-0001}
expdb: {noise: {}}
"""
FILES = {
    "train.yaml": TRAIN,
    "optim/adamw.yaml": "kind: adamw\nlr: 0.003\nwd: 0.1\nbetas:\n  - 0.9\n  - 0.95\n",
    "schedule/step.yaml": "kind: step\nwarmup_steps: 30\nat:\n  - 0.8\n  - 0.9\n",
    "schedule/cosine.yaml": "kind: cosine\nwarmup_steps: 30\nmin_ratio: 0.1\n",
    "exp/baseline.yaml": f"{G}expdb:\n  noise: {{val/loss: 0.008}}\n",
    "exp/exp01.yaml": f"{G}# why\ndefaults:\n  - baseline\n  - _self_\n\noptim:\n  lr: 1.0e-2\n",
    "exp/exp02.yaml": f"{G}defaults:\n  - exp01\n  - override /schedule: cosine\n  - _self_\n"
    "hydra:\n  sweeper:\n    params:\n      seed: 0,1,2\n",
    "exp/deep/er.yaml": f"{G}defaults:\n  - /exp/baseline\n  - _self_\noptim: {{wd: 0.2}}\n",
    "exp/fragment.yaml": "optim:\n  lr: 1\n",
    # to look at
    "exp/typo.yaml": f"{G}defaults: [baseline, _self_]\noptim: {{dw: 0.1}}\n",
    "exp/warm.yaml": f"{G}schedule: {{warmup_steps: 120}}\n",
    "exp/rule.yaml": f"{G}expdb: {{monitor: {{non_finit: {{severity: warn}}}}}}\n",
    # to fix
    "exp/nofile.yaml": f"{G}defaults:\n  - override /schedule: linear\n",
    "exp/nogroup.yaml": f"{G}defaults:\n  - override /model: moe\n",
    "exp/twice.yaml": f"{G}defaults:\n  - /schedule: cosine\n",
    "exp/circle.yaml": f"{G}defaults:\n  - circle2\n",
    "exp/circle2.yaml": f"{G}defaults:\n  - circle\n",
    "exp/broken.yaml": f"{G}a: [1\nb: 2\n",
    "exp/tag.yaml": f'{G}a: !!python/object/apply:os.system ["touch /tmp/expdb-was-here"]\n',
    "exp/empty.yaml": "",
    "exp/subtree.yaml": f"{G}exp:\n  optim: {{lr: 1}}\n",
    "exp/resolver.yaml": f"{G}optim: {{wd: '${{mine:3}}'}}\n",
    "exp/setting.yaml": f"{G}expdb: {{keeep: 1}}\n",
    "exp/sweep.yaml": f"{G}hydra:\n  sweeper:\n    params:\n      +optim.lr: 1,2\n"
    "      optim.lrr: 1,2\n",
    "exp/e ev,il[x]\x1b.yaml": f"{G}optim: {{lr: 0.1}}\n",
    "exp/old.yml": f"{G}optim: {{lr: 0.1}}\n",
}


def make_conf(top: Path, files: dict[str, str]) -> Entry:
    for name, text in files.items():
        path = top / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Entry(folder=top / "conf", name="train")


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    made = make_conf(tmp_path_factory.mktemp("project"), FILES)
    (made.folder / "exp" / "bytes.yaml").write_bytes(G.encode() + b"\n\na: \xff\n")
    return made


@pytest.fixture(scope="module")
def report(entry: Entry) -> ConfReport:
    before = {path: path.read_bytes() for path in entry.folder.rglob("*.y*ml")}
    made = check_conf(entry)
    assert {path: path.read_bytes() for path in entry.folder.rglob("*.y*ml")} == before
    return made


@pytest.fixture(scope="module")
def rows(report: ConfReport) -> dict[str, ConfRow]:
    return {row.name: row for row in report.rows}


def test_every_file_has_a_row(report: ConfReport, rows: dict[str, ConfRow]) -> None:
    names = {name.removeprefix("exp/").rpartition(".")[0] for name in FILES if "exp/" in name}
    assert set(rows) == names | {"bytes"}
    assert (report.group, report.remarks) == ("exp", ())
    marks = [row.mark for row in report.rows]
    assert (report.num_to_fix, report.num_to_see) == (marks.count("problem"), marks.count("note"))


def test_hydra_is_as_it_was_before(report: ConfReport) -> None:
    from hydra.core.global_hydra import GlobalHydra

    assert not GlobalHydra.instance().is_initialized()
    assert not Path("/tmp/expdb-was-here").exists()


def test_what_an_experiment_changes_against_the_one_it_extends(rows: dict[str, ConfRow]) -> None:
    seen = {name: (rows[name].base, rows[name].changed) for name in ("baseline", "exp01", "exp02")}
    assert seen["baseline"] == ("base", ())
    assert seen["exp01"] == ("baseline", ("optim.lr",))
    assert seen["exp02"] == ("exp01", ("schedule.kind", "schedule.min_ratio", "schedule.at"))
    assert (rows["deep/er"].base, rows["deep/er"].changed) == ("baseline", ("optim.wd",))
    keys = rows["exp01"].num_keys
    assert keys == 9  # without the seed and expdb's own: 4 of optim, 3 of schedule, loop, tracker
    assert {rows[name].mark for name in (*seen, "deep/er")} == {"ok"}
    added = {name: row.added for name, row in rows.items() if row.added}
    assert added == {
        "exp02": ("schedule.min_ratio",), "subtree": ("exp.optim.lr",), "typo": ("optim.dw",),
    }  # fmt: skip
    digests = [rows[name].digest for name in (*seen, "deep/er")]
    assert all(digest is not None and digest.startswith("v1:") for digest in digests)
    assert len(set(digests)) == len(digests)
    assert rows["nofile"].digest is None


def test_what_is_to_look_at(rows: dict[str, ConfRow]) -> None:
    seen = {row.name: row.remarks for row in rows.values() if row.mark == "note"}
    assert seen == {
        "typo": ("ADDS optim.dw: a typo of optim.wd?",),
        "warm": ("warm-up is 40 % of the steps; 1 to 10 % is usual",),
    }


FIX = {
    "fragment": "line 1 lacks `# @package _global_`",
    "empty": "line 1 lacks `# @package _global_`",
    "nofile": "schedule=linear: no such file in conf/schedule",
    "nogroup": "overrides model, which the defaults list of the base does not have",
    "twice": "schedule stands twice in the defaults list: write `override schedule: cosine`",
    "circle": "its defaults lists lead in a circle",
    "circle2": "its defaults lists lead in a circle",
    "broken": "line 3: expected ',' or ']', but got ':'",
    "bytes": "line 4 is not UTF-8 text",
    "tag": "conf/exp/tag.yaml:2: could not determine a constructor for the tag"
    " 'tag:yaml.org,2002:python/object/apply:os.system'",
    "subtree": "leaves a subtree `exp` in the config: its keys belong at the top",
    "setting": "no setting is called expdb.keeep; nearest: expdb.keep",
    "sweep": "hydra.sweeper.params: optim.lr is in the config already: write it without `+`",
    "rule": "no rule is called expdb.monitor.non_finit; nearest: non_finite; a rule of your own"
    " names its detector",
    "old": "ends in .yml: Hydra reads .yaml only",
    "resolver": "optim.wd needs the resolver mine: declare expdb.resolvers.mine: MODULE:FUNCTION",
}


@pytest.mark.parametrize("name", list(FIX))
def test_what_is_to_fix(rows: dict[str, ConfRow], name: str) -> None:
    assert (rows[name].mark, rows[name].remarks[0]) == ("problem", FIX[name])


def test_more_than_one_thing_is_kept(rows: dict[str, ConfRow]) -> None:
    assert rows["sweep"].remarks[1] == (
        "hydra.sweeper.params: optim.lrr is not in the config: a typo of optim.lr?"
    )


def test_a_hostile_name_composes(rows: dict[str, ConfRow]) -> None:
    row = rows["e ev,il[x]\x1b"]
    assert (row.mark, row.changed) == ("ok", ("optim.lr",))


def test_the_base_itself_may_be_what_is_wrong(tmp_path: Path) -> None:
    files = {
        name: FILES[name]
        for name in ("exp/baseline.yaml", "optim/adamw.yaml", "schedule/step.yaml")
    }
    own = TRAIN.replace("defaults:\n", "defaults:\n  - exp: baseline\n")
    made = check_conf(make_conf(tmp_path / "a", {**files, "train.yaml": own}))
    assert made.remarks == ("conf/train.yaml has exp in its defaults list, so `+exp=NAME` fails",)
    assert [row.mark for row in made.rows] == ["ok"]
    broken = TRAIN.replace("schedule: step", "schedule: none")
    made = check_conf(make_conf(tmp_path / "b", {**files, "train.yaml": broken}))
    assert made.remarks == ("conf/train.yaml: schedule=none: no such file in conf/schedule",)
    assert [row.mark for row in made.rows] == ["problem"]


# -------------------------------------------------------------------------------------- --conf EXP


def test_every_value_says_where_it_is_from(entry: Entry) -> None:
    found = explain(entry, "exp02", directory=entry.folder.parent)
    rows = {row.key: row for row in found.rows}
    assert (found.num_keys, found.stands) == (len(rows), None)
    said = {
        key: (row.value, row.where, row.was and (row.was.value, row.was.where))
        for key, row in rows.items()
    }
    assert said["optim.lr"] == (
        0.01, "conf/exp/exp01.yaml:8", (0.003, "conf/optim/adamw.yaml:2"),
    )  # fmt: skip
    assert said["schedule.kind"] == (
        "cosine", "conf/schedule/cosine.yaml:1", ("step", "conf/schedule/step.yaml:1"),
    )  # fmt: skip
    assert said["loop.max_steps"] == (300, "conf/train.yaml:7", None)
    assert said["optim.betas"] == ([0.9, 0.95], "conf/optim/adamw.yaml:4", None)
    assert found.rows[0].key == "optim.lr"
    assert (found.base, found.changed[:2]) == ("exp01", ("schedule.kind", "schedule.min_ratio"))
    assert [key for key, row in rows.items() if row.is_added] == ["schedule.min_ratio"]
    assert str(rows["tracker.api_key"].value) == "<redacted>"
    assert "FAKE-KEY" not in repr(found)


def test_what_cannot_be_explained(entry: Entry) -> None:
    with pytest.raises(NotFound, match="no experiment is called exp1 in conf/exp") as error:
        explain(entry, "exp1", directory=entry.folder)
    assert error.value.hints[0].startswith("nearest: exp01")
    with pytest.raises(BadInput, match="nofile cannot be composed: schedule=linear"):
        explain(entry, "nofile", directory=entry.folder)


def test_how_a_run_stands_to_its_config(world: World, entry: Entry) -> None:
    from expdb.track.config import read_config

    config = {
        "optim": {"kind": "adamw", "lr": 0.01, "wd": 0.1, "betas": [0.9, 0.95]}, "seed": 3,
        "schedule": {"kind": "step", "warmup_steps": 30, "at": [0.8, 0.9]},
        "loop": {"max_steps": 300}, "tracker": {"api_key": "x"},
    }  # fmt: skip
    run = world.run("exp01", canonical=read_config(config).canonical)
    with world.reader() as reader:
        found = explain(entry, "exp01", directory=entry.folder, reader=reader)
    (one,) = found.stands or ()
    assert (one.run, one.seed, one.state) == (run, 0, "up to date")


# -------------------------------------------------------------------------------- which config


def test_the_config_of_a_script_is_found_without_running_it(world: World) -> None:
    make_conf(world.top, {"train.yaml": "a: 1\n", "other.yaml": "a: 2\n"})
    world.write({"train.py": "raise SystemExit(1)\n"})
    assert find_entry([world.top]).path == world.top / "conf/train.yaml"
    world.write(
        {
            "sub/fit.py": "import hydra\n@hydra.main(version_base=None, config_path='../conf',"
            " config_name='other.yaml')\ndef main(cfg): pass\nraise SystemExit(1)\n"
        }
    )
    assert hydra_main(world.top / "sub/fit.py") == (world.top / "conf", "other")
    assert find_entry([world.top], world.store).name == "train"
    run = world.run()
    path = world.folder(run) / "run.json"
    said = {"command": ["python", "sub/fit.py"], "config_name": "other"}
    write_json(path, {**read_json(path), **said})
    assert find_entry([world.top], world.store).name == "other"
    for script in ("../../etc/x.py", "/etc/x.py", "a\0b"):
        write_json(path, {**read_json(path), "command": ["python", script]})
        assert find_entry([world.top], world.store).name == "train"


def test_a_script_is_declared_before_anything_has_run(world: World) -> None:
    main = "import hydra\n@hydra.main(version_base=None, config_path='conf', config_name='{}')\n"
    world.write(
        {
            "pretrain.py": main.format("pretrain") + "def main(cfg): pass\n",
            "train.py": main.format("train") + "def main(cfg): pass\n",
        }
    )
    files = {"train.yaml": "a: 1\n", "pretrain.yaml": "a: 2\n"}
    make_conf(world.top, {**files, "expdb/default.yaml": "entry: pretrain.py\n"})
    found = find_entry([world.top], world.store)
    assert (found.name, found.script) == ("pretrain", "pretrain.py")
    for said in ("entry: null", "entry: gone.py", "entry: ../x.py", "entry: [a]", "entry: {", ""):
        (world.top / "conf/expdb/default.yaml").write_text(said + "\n")
        assert find_entry([world.top], world.store).name == "train"


def test_no_config_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no conf/train\.yaml here"):
        find_entry([tmp_path])


@pytest.mark.parametrize(
    "text",
    ["", "def f(:", "@main()\ndef f(): pass", "@hydra.main(config_path=None)\ndef f(): pass",
     "@hydra.main(config_path='pkg://x')\ndef f(): pass", "\0", "@hydra.other()\ndef f(): pass"],
)  # fmt: skip
def test_scripts_that_say_no_folder(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    assert hydra_main(tmp_path / "train.py") is None


def test_aliases_of_aliases_come_to_an_end(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(40)]
    lines = ["a0: &a0 {x: 1}"]
    for old, new in pairwise(names):
        lines.append(f"{new}: &{new} {{x: *{old}, y: *{old}}}")
    (tmp_path / "bomb.yaml").write_text("\n".join(lines))
    with pytest.raises(Unreadable, match="more than 100,000 keys"):
        read_config_file(tmp_path / "bomb.yaml")


def test_lines_of_keys_of_many_kinds(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        f"\n{G}a:\n  b: 1\n  'c.d': 2\n1: x\n'1': y\nfalse: z\nempty: {{}}\nlist:\n\n  - 1\n"
    )
    found = read_config_file(path)
    assert found.package == "_global_"
    assert found.lines == {
        "a.b": 4, "a.'c.d'": 5, "1": 6, "'1'": 7, "false": 8, "empty": 9, "list": 10,
    }  # fmt: skip


def test_a_base_that_several_experiments_share_is_composed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hydra._internal.config_loader_impl import ConfigLoaderImpl

    files = {"train.yaml": "defaults:\n  - optim: adam\n  - _self_\nseed: 0\n"}
    files |= {"optim/adam.yaml": "lr: 0.1\n", "optim/sgd.yaml": "lr: 0.1\n"}
    for at in range(4):
        files[f"exp/plain{at}.yaml"] = f"{G}own{at}: 1\n"
        choose = "defaults:\n  - override /optim: sgd\n  - _self_\n"
        files[f"exp/sgd{at}.yaml"] = f"{G}{choose}own{at}: 1\n"
    made = make_conf(tmp_path, files)
    composed: list[tuple[str, ...]] = []
    load = ConfigLoaderImpl.load_configuration

    def counted(self: Any, config_name: str, overrides: list[str], **more: Any) -> Any:
        composed.append(tuple(overrides))
        return load(self, config_name, overrides, **more)

    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", counted)
    found = check_conf(made)
    assert [row.remarks for row in found.rows] == [
        (f"ADDS own{at}: a typo?",) for _ in range(2) for at in range(4)
    ]
    assert len(composed) == len(set(composed)) == 8 + 2  # and the base alone, and with sgd
