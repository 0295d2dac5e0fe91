from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from expdb.actions import doctor, doctor_machine
from expdb.actions.doctor_machine import Terminal
from expdb.errors import Corrupt, NotFound
from expdb.git.worktree import Unavailable, find_worktree
from expdb.index.reader import open_reader
from expdb.store.attempts import store_now

if TYPE_CHECKING:
    from conftest import World

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
nas:/vol /data nfs4 rw 0 0
/dev/sdb1 /data/fast\\040disk xfs rw 0 0
lus@tcp:/x /data/fast\\040disk/big lustre rw 0 0
broken
"""


def terminal(**change: object) -> Terminal:
    known: dict[str, object] = {
        "is_terminal": True, "is_utf8": True, "columns": 100,
        "env": {"TERM": "xterm-256color", "PATH": os.environ["PATH"]},
    }  # fmt: skip
    return Terminal(**{**known, **change})  # type: ignore[arg-type]


def checks_of(world: World, **change: object) -> dict[str, doctor.Check]:
    known: dict[str, object] = {
        "directory": world.top, "store": world.store, "worktree": find_worktree(world.top),
        "terminal": terminal(),
    }  # fmt: skip
    made = doctor.doctor(doctor.Surroundings(**{**known, **change}))  # type: ignore[arg-type]
    return {check.name: check for check in made}


def test_a_healthy_place_has_no_problem(world: World) -> None:
    world.run()
    with world.reader():
        pass
    found = checks_of(world)
    assert {check.mark for check in found.values()} <= {"ok", "none"}
    assert list(found) == [
        "python", "expdb", "torch", "libraries", "git", "store", "index", "clock", "terminal",
        *(["pager"] if "pager" in found else []), "gpu",
        *(["kernel log"] if "kernel log" in found else []),
    ]  # fmt: skip
    assert found["git"].what.endswith(f"repository on main {world.git('rev-parse', 'HEAD')[:7]}")
    assert found["store"].what.startswith(f"{world.store.name}, ")
    assert found["index"].what.startswith("current, 1 run, ")
    assert found["libraries"].what.startswith("hydra-core 1.")


def test_nothing_is_written_but_the_time_of_one_empty_file(world: World) -> None:
    world.run()
    before = {path: path.read_bytes() for path in world.top.rglob("*") if path.is_file()}
    checks_of(world)
    after = {path: path.read_bytes() for path in world.top.rglob("*") if path.is_file()}
    assert {path for path in after if before.get(path) != after[path]} <= {
        world.store.layout.meta / "clock"
    }


# ---------------------------------------------------------------------------------------- git


def test_where_git_is(world: World, tmp_path: Path) -> None:
    world.git("checkout", "-q", "--detach")
    what = checks_of(world)["git"].what
    assert "repository detached at " in what
    (tmp_path / "new").mkdir()
    subprocess.run(["git", "init", "-q", "-b", "trunk"], cwd=tmp_path / "new", check=True)
    found = find_worktree(tmp_path / "new")
    assert doctor.git_check(tmp_path, found).what.endswith("on trunk, no commit yet")
    check = doctor.git_check(tmp_path, find_worktree(tmp_path))
    assert check.mark == "note"
    assert check.what.endswith("not in a git repository: runs keep config and weights, not code")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_repository_of_another_user_is_named_with_the_way_out(world: World) -> None:
    os.chown(world.top, 65534, 65534)
    os.chown(world.top / ".git", 65534, 65534)
    found = find_worktree(world.top)
    assert isinstance(found, Unavailable)
    check = doctor.git_check(world.top, found)
    assert check.mark == "problem"
    assert "the repository belongs to another user" in check.what
    assert check.advice == (f"git config --global --add safe.directory {world.top}",)


def test_no_git_at_all(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor.git_check(world.top, Unavailable(reason="git is not installed"))
    assert (check.mark, check.what) == ("note", "none: runs keep config and weights, not code")


# -------------------------------------------------------------------------- store, index, clock


def test_the_file_system_is_that_of_the_innermost_mount(tmp_path: Path) -> None:
    kinds = {
        "/home/x": "ext4", "/data/runs": "nfs4", "/data/fast disk/runs": "xfs",
        "/data/fast disk/big/runs": "lustre", "/database": "ext4",
    }  # fmt: skip
    for path, kind in kinds.items():
        assert doctor.file_system(Path(path), MOUNTS) == kind
    assert doctor.file_system(tmp_path, "") == ""
    over = MOUNTS + "tmpfs /data tmpfs rw 0 0\n"
    assert doctor.file_system(Path("/data/runs"), over) == "tmpfs"


def test_what_is_to_know_about_the_store(world: World) -> None:
    real = os.path.realpath(world.store.root)
    [check] = doctor.place_checks(world.store, mounts=f"x {real} nfs4 rw 0 0\n", free=10**12)
    assert check.mark == "note"
    assert "is on a network file system (nfs4): a killed run of another host" in check.what
    marks = [
        [check.mark for check in doctor.place_checks(world.store, mounts="", free=free)]
        for free in (10**12, 5 * 10**8, 10**6, None)
    ]
    assert marks == [["ok"], ["note"], ["problem"], ["ok"]]


def test_no_store_and_a_damaged_one(world: World) -> None:
    checks = checks_of(world, store=NotFound("no store here", hint="expdb init"))
    assert (checks["store"].mark, checks["store"].advice) == ("none", ("expdb init",))
    assert "index" not in checks
    checks = checks_of(world, store=Corrupt("store.json of runs is damaged"))
    assert checks["store"].mark == "problem"


def test_the_index_is_looked_at_and_not_built(make_world: Callable[..., World]) -> None:
    world = make_world("other")
    first = world.run()
    assert doctor.index_check(world.store).what == "none yet for 1 run: the next command makes it"
    assert not world.store.layout.index.exists()
    with open_reader(world.store):
        pass
    assert doctor.index_check(world.store).what.startswith("current, 1 run, ")
    world.run()
    changed = "1 run has changed since: the next command looks again"
    assert doctor.index_check(world.store).what == changed
    world.folder(first).rename(world.top / "gone")
    assert doctor.index_check(world.store).what.startswith("2 runs have changed since")


def test_the_clock_against_the_files(world: World) -> None:
    assert doctor.clock_check(time.time(), store_now(world.store.layout.meta)).mark == "ok"
    behind = doctor.clock_check(1000.0, 1094.2)
    assert behind.what == "this machine is 94 s behind the files it just wrote"
    assert (behind.mark, behind.advice[0]) == (
        "problem", "set the clock; ages and ETA are wrong until then",
    )  # fmt: skip
    ahead = doctor.clock_check(8200.0, 1000.0)
    assert ahead.what == "this machine is 7,200 s ahead of the files it just wrote"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written(world: World) -> None:
    world.store.root.chmod(0o555)
    try:
        checks = checks_of(world)
    finally:
        world.store.root.chmod(0o755)
    assert checks["clock"].mark == "none"


# ------------------------------------------------------------------------------------ versions


def test_versions_are_held_against_the_bounds_of_the_installed_metadata() -> None:
    versions = {
        "hydra-core": "1.3.8", "omegaconf": "2.0.6", "duckdb": "1.4.0", "pyarrow": "26.0",
    }  # fmt: skip
    needs = {
        "expdb-ml": ["duckdb<3,>=1.5.5", "Hydra_Core>=1.3.8,<1.5", "torch>=2.9; extra == 'train'"],
        "hydra-core": ["omegaconf<2.4,>=2.2", "not a requirement!!"],
    }
    found = doctor_machine.library_checks(version=versions.get, requires=needs.get)
    assert [(check.mark, check.what, check.advice) for check in found] == [
        ("ok", "hydra-core 1.3.8, pyarrow 26.0", ()),
        ("problem", "omegaconf 2.0.6; hydra-core needs <2.4,>=2.2",
         ("pip install 'omegaconf<2.4,>=2.2'",)),
        ("problem", "duckdb 1.4.0; expdb needs <3,>=1.5.5", ("pip install 'duckdb<3,>=1.5.5'",)),
        ("problem", "textual is not installed", ("pip install textual",)),
    ]  # fmt: skip
    torch = doctor_machine.torch_check({}, version={"torch": "2.1"}.get, requires=needs.get)
    assert (torch.mark, torch.what) == ("problem", "2.1; expdb needs >=2.9")
    torch = doctor_machine.torch_check({}, version={}.get, requires=needs.get)
    assert (torch.mark, torch.advice) == ("none", ("pip install 'expdb-ml[train]'",))
    one = {"OMP_NUM_THREADS": "1"}
    torch = doctor_machine.torch_check(one, version={"torch": "2.13.0+cpu"}.get, requires=needs.get)
    assert (torch.mark, torch.what) == ("ok", "2.13.0+cpu, 1 thread")


def test_what_is_installed_keeps_its_own_bounds() -> None:
    assert {check.mark for check in doctor_machine.library_checks()} == {"ok"}


# ------------------------------------------------------------------------------- terminal, gpu


@pytest.mark.parametrize(
    ("change", "mark", "what"),
    [
        ({}, "ok", "UTF-8, 256 colours, 100 columns"),
        ({"env": {"COLORTERM": "truecolor"}}, "ok", "UTF-8, 16 million colours, 100 columns"),
        ({"env": {"TERM": "xterm"}}, "ok", "UTF-8, 16 colours, 100 columns"),
        ({"env": {"NO_COLOR": "1"}}, "ok", "UTF-8, no colours as NO_COLOR asks, 100 columns"),
        ({"env": {"TERM": "dumb"}}, "ok", "ASCII since TERM is dumb, 100 columns"),
        ({"env": {"EXPDB_ASCII": "1"}}, "ok", "ASCII as EXPDB_ASCII asks, 100 columns"),
        ({"is_utf8": False}, "note", "ASCII since the locale is not UTF-8, 100 columns"),
        ({"is_terminal": False}, "none", "none: output is ASCII, 100 columns wide"),
    ],
)
def test_terminals(change: dict[str, object], mark: str, what: str) -> None:
    check = doctor_machine.terminal_checks(terminal(**change))[0]
    assert (check.mark, check.what) == (mark, what)


def test_pagers(tmp_path: Path) -> None:
    (tmp_path / "less").write_text("#!/bin/sh\n")
    (tmp_path / "less").chmod(0o755)

    def pager(**env: str) -> str:
        return doctor_machine.terminal_checks(terminal(env=env))[1].what

    assert pager(PATH=str(tmp_path)) == "less"
    assert pager(PATH=str(tmp_path), PAGER="cat") == "off: PAGER says so"
    assert pager(PATH="/nowhere").startswith("none: long lists scroll by")


@pytest.mark.parametrize(
    ("script", "mark", "what"),
    [
        ("echo H200; echo H200; echo A100", "ok", "2 x H200, 1 x A100"),
        ("echo no driver >&2; exit 9", "note", "nvidia-smi fails: no driver"),
        ("exit 0", "note", "nvidia-smi fails"),
        (None, "none", "none found"),
    ],
)
def test_gpus(tmp_path: Path, script: str | None, mark: str, what: str) -> None:
    if script is not None:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    check = doctor_machine.gpu_check(path=str(tmp_path))
    assert (check.mark, check.what) == (mark, what)
