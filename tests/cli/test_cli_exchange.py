"""`remote`, `push` and `pull` as people and scripts call them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_cli_hostile import EVIL, obeyed
from tests.query.made import make_run, make_store, write_run

pytestmark = pytest.mark.slow


@pytest.fixture
def clone(own_lab, mine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The laboratory has a remote; call `expdb` in a clone of its repository with a store of its
    own, which has the same.
    """
    top = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--no-local", str(own_lab.top), str(top)], check=True)

    def call(*args: str):
        monkeypatch.chdir(top)
        try:
            return mine(*args)
        finally:
            monkeypatch.chdir(own_lab.top)

    (tmp_path / "lab").mkdir()
    assert mine("remote", "add", "lab", "../lab").code == 0
    assert call("init").code == 0
    assert call("remote", "add", "lab", "../lab").code == 0
    return call


def test_runs_go_to_a_folder_and_come_to_a_clone(clone, mine, tmp_path) -> None:
    ids = set(mine("ls", "-q").out.split())
    dry = mine("push", "--dry-run", "--json")
    assert {run["outcome"] for run in json.loads(dry.out)["runs"]} == {"new"}
    assert dry.err.endswith("nothing written\n")
    done = mine("push", "-q")
    assert (done.code, set(done.out.split())) == (0, ids)
    again = mine("push")
    assert (again.code, again.out) == (0, "")
    assert again.err.startswith("nothing to push: lab has 8 runs already")
    assert set(clone("pull", "--dry-run", "-q").out.split()) == ids
    got = clone("pull")
    assert (got.code, got.out) == (0, ""), got.err
    assert got.err.startswith("pulled 8 runs from lab, ")
    assert "code of 2 commits" in got.err
    assert got.err.endswith("undo:      expdb undo\n")
    assert set(clone("ls", "-q").out.split()) == ids
    same = mine("show", "lab/baseline", "-q") if False else clone("show", "lab/baseline", "-q")
    assert same.out == mine("show", "baseline", "-q").out
    listed = json.loads(clone("remote", "--json").out)["remotes"]
    assert [(one["name"], one["runs"]) for one in listed] == [("lab", 8)]
    assert [ref["name"] for ref in listed[0]["refs"]] == ["lab/baseline"]
    # The dirty code of the first clone is here.
    assert clone("rollback", "exp07_code", "-y").code == 0
    assert (tmp_path / "clone/knobs.py").read_text() == "WIDTH = 2\n"
    assert clone("undo").code == 0
    assert clone("fsck").code == 0


def test_runs_are_chosen_by_words_and_by_a_filter(clone, mine) -> None:
    assert len(mine("push", "lab", "exp01", "-q").out.split()) == 1
    assert len(mine("push", "baseline:all", "-q").out.split()) == 2
    assert len(mine("push", "-w", "state = failed", "-q").out.split()) == 1
    assert mine("push", "lab", "exp01", "-w", "state = failed").code == 2
    assert mine("push", "nope").code == 3
    assert len(clone("pull", "baseline", "-q").out.split()) == 2
    run = mine("show", "exp01", "-q").out.strip()
    assert clone("pull", "lab", run[:5], "-q").out.split() == [run]
    done = clone("pull", "lab", "nope")
    assert (done.code, done.err.splitlines()[0]) == (
        3, "error: the remote lab has no run nope"
    )  # fmt: skip


def test_a_pull_takes_the_filter_of_push(clone, mine) -> None:
    assert mine("push").code == 0
    failed = mine("ls", "-w", "state = failed", "-q").out.split()
    assert len(failed) == 1
    assert clone("pull", "-w", "state = failed", "-q").out.split() == failed
    assert clone("pull", "lab", "exp01", "-w", "state = failed").code == 2
    done = clone("pull", "-w", "seed = 99")
    assert (done.code, done.err) == (
        3,
        "error: the filter selects no run of lab\nhint: what it has: expdb pull lab --dry-run\n",
    )


def test_other_content_is_refused_with_exit_4_and_named(clone, own_lab, mine, tmp_path) -> None:
    assert mine("push").code == 0
    run = mine("show", "exp01", "-q").out.strip()
    (path,) = (tmp_path / "lab").glob(f"exp=*/run={run}/run.json")
    path.write_text(path.read_text().replace('"seed":0', '"seed":7'))
    done = mine("push")
    assert done.code == 4
    assert "error: 1 run of lab refused; nothing of it was changed\n" in done.err
    assert f"         {run[:4]} exp01: run.json is not the same in both places\n" in done.err
    data = json.loads(mine("push", "--json").out)
    assert [one["why"] for one in data["runs"] if one["id"] == run] == [
        "run.json is not the same in both places"
    ]
    got = clone("pull", "-q")
    assert (got.code, len(got.out.split())) == (0, 8)


def test_rollback_names_where_the_code_is(clone, mine, tmp_path) -> None:
    assert mine("push").code == 0
    away = tmp_path / "code"
    shutil.move(tmp_path / "lab/code", away)
    done = clone("pull")
    assert done.code == 0
    assert "  code of 2 runs is not here: " in done.err
    shutil.move(away, tmp_path / "lab/code")
    done = clone("rollback", "exp07_code", "-y")
    assert done.code == 4
    short = clone("show", "exp07_code", "-q").out.strip()[:4]
    assert f"hint: the remote lab has it; fetch its code: expdb pull lab {short}\n" in done.err
    assert clone("pull", "lab", short).code == 0
    assert clone("rollback", "exp07_code", "-y").code == 0


@pytest.mark.parametrize(
    ("args", "code", "said", "hint"),
    [
        (("push",), 3, "this store has no remote", "name a folder: expdb remote add NAME DIR"),
        (("pull", "x"), 3, "this store has no remote", "expdb remote add"),
        (("remote", "add", "lab"), 2, "it wants add NAME DIR, rm NAME, or nothing", "usage:"),
        (("remote", "rm"), 2, "it wants add NAME DIR", "usage:"),
        (("remote", "rm", "lab"), 3, "this store has no remote", ""),
        (("remote", "lab"), 2, "lab is not one of add, rm", ""),
        (("remote", "add", "lab", "nowhere"), 3, "there is no folder", "make it: mkdir -p"),
        (
            ("remote", "add", "lab", "train.py"),
            4,
            "is a file, not a folder",
            "a remote is a folder",
        ),
        (("remote", "add", "lab", "runs"), 4, "lies in the store itself", "a folder elsewhere"),
        (("remote", "add", "a/b", ".."), 2, "a/b cannot be a remote", "letters"),
    ],
)
def test_what_cannot_be_is_said_with_the_way_out(mine, args, code, said, hint) -> None:
    done = mine(*args)
    assert (done.code, done.out) == (code, "")
    first, _, rest = " ".join(done.err.split()).partition("hint: ")
    assert said in first
    assert hint in rest


def test_several_remotes_want_a_name(mine, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert mine("remote", "add", name, f"../{name}").code == 0
    assert mine("remote", "-q").out.split() == ["one", "two"]
    done = mine("push")
    assert (done.code, done.err) == (3, "error: which of 2 remotes?\nhint: one of: one, two\n")
    assert mine("push", "two", "exp01", "-q").code == 0
    assert mine("remote", "rm", "two").code == 0
    assert mine("remote", "-q").out.split() == ["one"]


def test_names_that_attack_are_text_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from expdb.cli.main import main

    def call(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        said = capsys.readouterr()
        assert not obeyed(said.out + said.err), args
        assert "a fault in expdb" not in said.err, said.err
        return int(code), said.out, said.err

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", "0")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    store = make_store(tmp_path / "runs")
    for at, name in enumerate(EVIL):
        run = f"{'abcde'[at]}{at:09d}"
        write_run(store, make_run(run, experiment=name, variant=f"+{name}={name}", value=2.0))
    make_store(tmp_path / "other")
    (tmp_path / "lab").mkdir()
    before = {path.name for path in tmp_path.iterdir()}
    call("remote", "add", "lab", "lab")
    call("--store", "other", "remote", "add", "lab", "lab")
    for form in ((), ("--json",), ("-q",)):
        for verb in ("push", "pull"):
            code, _, err = call("--store", "runs", verb, "--dry-run", *form)
            assert code == 0, err
    assert call("push")[0] == 0
    for name in EVIL:
        assert call("push", "--", name)[0] in (0, 3)
        assert call("pull", "lab", "--", name)[0] in (0, 3)
        assert call("remote", "add", "--", name, "lab")[0] in (2, 4)
        assert call("remote", "rm", "--", name)[0] == 3
    for form in (("--dry-run",), ("--dry-run", "--json"), ()):
        code, _, err = call("--store", "other", "pull", *form)
        assert code == 0, err
    assert {path.name for path in tmp_path.iterdir()} == before
    names = {path.name for path in (tmp_path / "runs").glob("exp=*")}
    assert {path.name for path in (tmp_path / "other").glob("exp=*")} == names
    assert len(names) == len(EVIL)
