"""Installed packages and the kind of machine: kept small, shown where they differ."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from expdb.index.reader import open_reader
from expdb.query.compare import comparison
from expdb.query.things import things_between
from expdb.store.packages import keep_packages, read_packages
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from expdb.track import machine
from expdb.track.environment import describe
from tests.query.made import make_run, make_store, write_run

OLD = {"numpy": "1.26.4", "tokenizers": "0.15", "same": "1"}
NEW = {"numpy": "2.0.0", "tokenizers": "0.19", "same": "1", "extra": "3"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path / "runs")


def environment(store: Store, first: str | None, second: str | None, **more: str):  # type: ignore[no-untyped-def]
    """Return the comparison of two runs with these lists of packages."""
    ids = ("k3f9x2m7qd", "t1h6y3cz8r")
    for run, digest in zip(ids, (first, second), strict=True):
        about = {"python": "3.11.7", "numpy": "1.26.4", **({"packages": digest} if digest else {})}
        about |= more if run == ids[1] else {}
        write_run(store, make_run(run, value=1.8, environment=about))
    with open_reader(store) as reader:
        targets = [Resolved(run=run, step=None, said="", is_literal=True) for run in ids]
        return comparison(reader, targets)


def test_only_packages_that_differ_are_named(store: Store) -> None:
    first, second = (keep_packages(store.layout, one) for one in (OLD, NEW))
    found = environment(store, first, second)
    named = {diff.name: diff.values for diff in found.environment if len(set(diff.values)) > 1}
    # What stands by its own name is not named twice.
    assert named == {"package tokenizers": ("0.15", "0.19"), "package extra": (None, "3")}
    assert things_between(found) == ()  # most packages are never imported


def test_without_a_list_the_digests_stand_for_it(store: Store) -> None:
    first = keep_packages(store.layout, OLD)
    other = "sha256:" + "0" * 64
    for second in (other, "sha256:../../../etc/passwd", None):
        found = {d.name: d.values for d in environment(store, first, second).environment}
        assert found["packages"] == (first, second)


def test_the_kind_of_machine_is_shown_and_is_no_cause(store: Store) -> None:
    found = environment(store, None, None, cpu="EPYC", driver="535.1")
    assert {"cpu", "driver"} <= {diff.name for diff in found.environment}
    assert things_between(found) == ()
    assert things_between(environment(store, None, None, python="3.12.1")) == ("environment",)


def test_equal_sets_are_one_file_and_a_damaged_one_is_none(store: Store) -> None:
    digest = keep_packages(store.layout, OLD)
    assert digest == keep_packages(store.layout, dict(reversed(OLD.items())))
    (path,) = (store.layout.meta / "packages").iterdir()
    assert read_packages(store.layout, digest) == OLD
    path.write_text("{}")
    assert read_packages(store.layout, digest) is None
    assert keep_packages(store.layout, {}) is None


def test_a_store_that_takes_no_file_costs_only_the_list(store: Store) -> None:
    (store.layout.meta / "packages").write_text("in the way")
    assert keep_packages(store.layout, OLD) is None
    assert "packages" not in describe(store.layout)


def test_names_of_folders_say_what_metadata_says() -> None:
    wanted = {}
    for one in metadata.distributions():
        name = one.metadata["Name"].lower().replace("_", "-").replace(".", "-")
        wanted.setdefault(name, one.version)
    found = machine.installed()
    assert found
    assert {name: wanted.get(name) for name in found} == found


def test_folders_of_every_kind_are_read(tmp_path: Path) -> None:
    for name in ("A_b.c-1.0.dist-info", "old-2.1-py3.11.egg-info", "bare.egg-info", "x.py"):
        (tmp_path / name).mkdir()
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "old-3.0.dist-info").mkdir()
    paths = [str(tmp_path), str(tmp_path / "gone"), str(tmp_path / "second")]
    assert machine.installed(paths) == {"a-b-c": "1.0", "old": "2.1"}


def test_driver_and_processor_are_read_from_what_the_kernel_says(tmp_path: Path) -> None:
    file = tmp_path / "version"
    file.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release\n"
    )
    assert machine.driver(file) == "535.104.05"
    file.write_text("processor\t: 0\nmodel name\t: AMD  EPYC 7763\nmodel name\t: other\n")
    assert machine.cpu(file) == "AMD EPYC 7763"
    assert machine.cpu(tmp_path / "gone") is None
    assert machine.driver(file) is None
