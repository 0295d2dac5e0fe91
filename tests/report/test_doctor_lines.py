"""How `doctor`, `doctor --conf` and `doctor --conf EXP` look."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from expdb.actions.conf_check import ConfReport, ConfRow
from expdb.actions.conf_detail import ConfDetail, KeyRow, Said
from expdb.actions.doctor_machine import Check
from expdb.digest import Missing
from expdb.query.entry import Entry
from expdb.query.standing import Standing
from expdb.query.status_results import Reason
from expdb.report import conf_check, doctor
from expdb.report.json import dumps
from expdb.text import cells

TOP = Path("/work")
CHECKS = (
    Check(name="python", mark="ok", what="3.11.7"),
    Check(name="expdb", mark="ok", what="0.1.0, format 1"),
    Check(name="torch", mark="ok", what="2.13.0+cpu, 1 thread"),
    Check(name="git", mark="ok", what="2.39.5, repository on main 7c1e88a"),
    Check(
        name="store",
        mark="note",
        what="runs is on a network file system (nfs4): a killed run of another host shows as lost"
        " after 10 min, not at once",
    ),
    Check(name="index", mark="ok", what="current, 15 runs, 1.2 MB"),
    Check(
        name="clock",
        mark="problem",
        what="this machine is 94 s behind the files it just wrote",
        advice=("set the clock; ages and ETA are wrong until then",),
    ),
    Check(name="terminal", mark="ok", what="UTF-8, 256 colours, 100 columns"),
    Check(name="gpu", mark="none", what="none found"),
)


def row(name, mark="ok", keys=41, base="baseline", changed=(), remarks=()):
    return ConfRow(name=name, mark=mark, num_keys=keys, base=base, changed=tuple(changed),
                   remarks=tuple(remarks))  # fmt: skip


def make_report(*more, remarks=()):
    rows = (
        row("baseline", base="base"),
        row("exp01", changed=["optim.lr"]),
        row("exp02_cosine", keys=40, changed=["schedule.kind", "a", "b", "c"]),
        row("exp03_lr_jump", changed=["a"]),
        row("exp04_bad_batch", changed=["a"]),
        row("exp05_overfit", changed=["a"]),
        row("exp06_moe", "note", 45, changed="abcde",
            remarks=["warm-up is 40 % of the steps; 1 to 10 % is usual"]),
        row("exp07_zloss", changed=["a"]),
        row("exp08_wd", "note", 42, changed=["a"],
            remarks=["ADDS optim.dw: a typo of optim.wd?"]),
        row("exp10_long", "problem", None,
            remarks=["schedule=linear: no such file in conf/schedule"]),
        row("exp11_draft", "problem", None, remarks=["line 1 lacks `# @package _global_`"]),
    )  # fmt: skip
    entry = Entry(folder=TOP / "conf", name="train")
    return ConfReport(entry=entry, group="exp", rows=(*rows, *more), remarks=remarks)


def render(report, style, **change):
    return conf_check.render(report, style, **{"directory": TOP, "everything": False, **change})


def test_doctor(screen, golden):
    golden("doctor-100.txt", doctor.render(CHECKS, screen()))
    golden("doctor-pipe.txt", doctor.render(CHECKS, screen(terminal=False, ascii=True)))
    assert all(line.isascii() for line in doctor.render(CHECKS, screen(ascii=True)))


def test_doctor_where_all_is_well(screen):
    assert doctor.render(CHECKS[:1], screen())[-1] == "no problem"
    assert doctor.summary([CHECKS[4], CHECKS[4]]) == "2 things to know"
    assert doctor.summary([CHECKS[6]]) == "1 problem"


def test_colour_changes_nothing_but_colour(screen):
    import re

    plain = doctor.render(CHECKS, screen())
    painted = doctor.render(CHECKS, screen(color=True))
    assert [re.sub("\x1b\\[[0-9;]*m", "", line) for line in painted] == plain
    plain = render(make_report(), screen())
    painted = render(make_report(), screen(color=True))
    assert [re.sub("\x1b\\[[0-9;]*m", "", line) for line in painted] == plain


def test_doctor_json(golden):
    golden("doctor.json", dumps(doctor.document(CHECKS)).splitlines())


def test_the_experiments(screen, golden):
    golden("doctor-conf-100.txt", render(make_report(), screen()))
    pipe = render(make_report(), screen(terminal=False, ascii=True), everything=True)
    golden("doctor-conf-pipe.txt", pipe)
    narrow = render(make_report(), screen(width=70))
    assert max(cells(line) for line in narrow) <= 70
    assert conf_check.next_commands(make_report()) == [("where", "expdb doctor --conf exp06_moe")]


def test_hostile_experiments_are_shown_as_text(screen):
    evil = row("\x1b[31m; rm -rf", "note", remarks=["\x07", "x"], changed=["\x1b"])
    report = make_report(evil, remarks=("conf/train.yaml: \x1b",))
    text = "\n".join(render(report, screen()))
    assert "\x1b" not in text
    assert "\\x07 (and 1 more)" in text
    assert "✗ conf/train.yaml: \\x1b" in text
    assert text.endswith("3 to fix, 3 to look at")
    only = ConfReport(entry=report.entry, group="exp", rows=(evil,))
    assert conf_check.next_commands(only) == [("where", "expdb doctor --conf '\\x1b[31m; rm -rf'")]


def test_no_experiments(screen):
    empty = ConfReport(entry=make_report().entry, group="exp", rows=())
    assert render(empty, screen()) == [
        "conf/exp, 0 files, base conf/train.yaml", "", "nothing to fix",
    ]  # fmt: skip
    assert conf_check.next_commands(empty) == []


DETAIL = ConfDetail(
    name="exp01",
    num_keys=41,
    digest="v1:6f20a9b1c4d7e08852b1",
    base="baseline",
    changed=("optim.lr", "loop.z_loss"),
    stands=(Standing(experiment="exp01", seed=0, state="up to date", run="t1h6y3cz8r"),),
    rows=(
        KeyRow(key="optim.lr", value=0.01, where="conf/exp/exp01.yaml:5",
               was=Said(value=0.003, where="conf/optim/adamw.yaml:2")),
        KeyRow(key="loop.z_loss", value=0.0001, where="conf/exp/exp01.yaml:6", is_added=True),
        KeyRow(key="loop.max_steps", value=300, where="conf/loop/default.yaml:3"),
        *(KeyRow(key=f"model.{name}", value=[0.8, None], where="conf/model/dense.yaml:2")
          for name in "abcdefgh"),
        KeyRow(key="data.path", value=Missing(), where="conf/data/text.yaml:3"),
        KeyRow(key="\x1b", value="\x1b", where=""),
    ),
)  # fmt: skip


def test_one_experiment(screen, golden):
    golden("doctor-exp-100.txt", conf_check.render_detail(DETAIL, screen(), everything=False))
    lines = conf_check.render_detail(DETAIL, screen(), everything=True)
    assert any(line.split()[:2] == ["data.path", "???"] for line in lines)
    moved = Reason(kind="config", name="lr", old=1, new=2)
    stale = Standing(experiment="exp01", seed=1, state="stale", run="a" * 10, reasons=(moved,))
    both = replace(DETAIL, stands=(*(DETAIL.stands or ()), stale))
    assert conf_check.render_detail(both, screen(), everything=False)[0].endswith(
        " 1 up to date (t1h6), 1 stale (aaaa): config: lr 1 → 2"
    )
    assert "\x1b" not in "".join(lines)


def test_json_of_experiments(golden):
    golden("doctor-conf.json", dumps(conf_check.document(make_report())).splitlines()[:24])
    data = conf_check.detail_document(DETAIL)
    assert data["keys"][0]["was"] == {"value": 0.003, "from": "conf/optim/adamw.yaml:2"}
    assert [one["key"] for one in data["keys"] if one["added"]] == ["loop.z_loss"]
    assert (data["base"], data["changed"]) == ("baseline", ["optim.lr", "loop.z_loss"])
    assert "???" in dumps(data)
    assert data["standing"][0]["state"] == "up to date"
    assert conf_check.detail_document(replace(DETAIL, stands=None))["standing"] is None
