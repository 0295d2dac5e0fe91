"""What loads what, at run time and by contract: layers are real, and cheap things stay cheap."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from expdb.index.reader import open_reader
from tests.query.made import make_run, make_store, write_run

ROOT = Path(__file__).parents[1]
HEAVY = {
    "torch", "duckdb", "_duckdb", "hydra", "pyarrow", "numpy", "click", "rich", "textual",
    "omegaconf", "psutil",
}  # fmt: skip
SCREEN = {"duckdb", "_duckdb", "click", "rich", "textual"}

REPORT = """
import json, sys
names = json.loads(sys.argv[2])
before = set(sys.modules)
exec(sys.argv[1])
print(json.dumps(sorted(name for name in names if name in set(sys.modules) - before)))
"""
EACH = """
import importlib, json, sys
found = {}
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    for heavy in json.loads(sys.argv[2]):
        if heavy in sys.modules and heavy not in found:
            found[heavy] = name
print(json.dumps(found))
"""


def loaded(code: str, names: set[str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT, code, json.dumps(sorted(names))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def modules(*packages: str) -> list[str]:
    found = []
    for package in packages:
        for path in sorted((ROOT / "expdb" / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found.append(name.removesuffix(".__init__"))
    return found


def test_import_expdb_loads_nothing_heavy() -> None:
    assert (
        loaded("import expdb; expdb.ExpdbError; dir(expdb)", HEAVY | {"yaml", "asyncio"}) == set()
    )


def test_the_public_names_are_there_on_first_use() -> None:
    code = "import expdb\nfor name in expdb.__all__: getattr(expdb, name)"
    assert loaded(code, HEAVY) >= {"_duckdb"}  # the store's reader; a start needs none of it
    assert loaded(
        "import expdb\ntry: expdb.nothing\nexcept AttributeError: import click", {"click"}
    )


@pytest.mark.parametrize("package", ["track", "store", "git", "monitor", "demo"])
def test_training_never_loads_the_database_or_the_screen(package: str) -> None:
    names = modules(package)
    assert f"expdb.{package}" in names
    done = subprocess.run(
        [sys.executable, "-c", EACH, json.dumps(names), json.dumps(sorted(SCREEN))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}


def test_a_start_loads_neither_torch_nor_the_database(tmp_path: Path) -> None:
    code = (
        "import expdb\n"
        f"with expdb.start({{'a': 1}}, store={str(tmp_path)!r}) as run:\n"
        "    run.log({'x': 1.0}, step=1)"
    )
    assert loaded(code, SCREEN | {"torch", "hydra", "omegaconf"}) == set()


def test_the_hydra_plugin_loads_the_standard_library_and_hydra_only() -> None:
    code = "import hydra_plugins.expdb_conf.plugin"
    others = HEAVY - {"hydra", "omegaconf"} | {"expdb.track", "expdb.store"}
    assert loaded(code, others) == set()


def test_help_is_cheap() -> None:
    code = (
        "import sys; sys.argv = ['expdb', '--help']\n"
        "from expdb.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code"
    )
    names = HEAVY - {"click"}
    assert loaded(code, names) == set()


@pytest.mark.parametrize("verb", ["ls", "rank", "best"])
def test_a_list_loads_what_it_shows_and_no_more(verb: str, tmp_path: Path) -> None:
    """Of DuckDB the engine; not what reads a run, a filter, git, or makes the next generation."""
    store = make_store(tmp_path / "runs")
    write_run(store, make_run("k3f9x2m7qd", value=1.8))
    with open_reader(store):
        pass  # now the index is current
    code = (
        f"import sys; sys.argv = ['expdb', '--store', {str(store.root)!r}, {verb!r}]\n"
        "from expdb.cli.main import main\n"
        "assert main() == 0"
    )
    never = {
        "expdb.model_run", "expdb.store.runs", "expdb.index.update", "expdb.index.rows",
        "expdb.query.columns", "expdb.query.filters.names", "expdb.query.compare_results",
        "expdb.git.command", "expdb.actions", "statistics", "subprocess", "shutil", "hashlib",
        "socket", "traceback",
    }  # fmt: skip
    assert loaded(code, HEAVY | never) == {"click", "_duckdb"}


def test_status_composes_nothing_that_is_kept(tmp_path: Path) -> None:
    store = make_store(tmp_path / "runs")
    write_run(store, make_run("k3f9x2m7qd", value=1.8))
    (tmp_path / "conf" / "exp").mkdir(parents=True)
    (tmp_path / "conf" / "train.yaml").write_text("seed: 0\n")
    (tmp_path / "conf" / "exp" / "baseline.yaml").write_text("# @package _global_\nlr: 1\n")
    code = (
        f"import sys; sys.argv = ['expdb', '-C', {str(tmp_path)!r}, 'status']\n"
        "from expdb.cli.main import main\n"
        "assert main() == 0"
    )
    composing = {"hydra", "omegaconf", "yaml", "expdb.query.composed", "importlib.metadata"}
    assert composing & loaded(code, composing) != set()
    assert loaded(code, HEAVY | composing) == {"click", "_duckdb"}


def test_the_contracts_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kept, 0 broken" in done.stdout


IMPORT = re.compile(
    r"^ *(?:from (expdb[\w.]*) import (\([^)]*\)|[^\n#]+)|import (expdb[\w.]*))", re.MULTILINE
)


def imports_of(path: Path, known: set[str]) -> set[str]:
    """The modules of ours that a file names in its imports, wherever they stand in it."""
    found: set[str] = set()
    for package, names, whole in IMPORT.findall(path.read_text()):
        words = re.findall(r"\w+", re.sub(r"\bas \w+", "", names))
        found |= {f"{package}.{word}" for word in words} & known or {package or whole}
    return found & known


def test_no_two_modules_import_each_other_not_even_for_their_types() -> None:
    """A circle, through however many modules: each of them is understood only with all others."""
    known = {}
    for package in (ROOT / "expdb", ROOT / "tui/expdb_tui"):
        for path in package.rglob("*.py"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            known[".".join(parts).removesuffix(".__init__")] = path
    del known["expdb"]  # what it names is loaded when it is asked for
    graph = {name: imports_of(path, set(known)) - {name} for name, path in known.items()}
    assert len(graph) > 400
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
