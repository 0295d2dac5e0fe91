"""The wheel: what is in it, and that it serves another Hydra app without disturbing it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
APP = """
import hydra

@hydra.main(version_base="1.3", config_path="conf", config_name=None)
def main(cfg):
    import sys, expdb
    with expdb.start(cfg, name="foreign") as run:
        run.log({"x": 1.0}, step=1)
    sys.stdout.write(f"{sorted(cfg)} {cfg.get('lr')} {expdb.__file__}")

main()
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sources that git would see, unpacked as an installer does."""
    out = tmp_path_factory.mktemp("wheel")
    words = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(out / "dist"), str(ROOT)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = (out / "dist").glob("expdb_ml-*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(out / "site")
    return out / "site"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A Hydra app of somebody else, with a config of its own."""
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "conf" / "config.yaml").write_text("lr: 0.5\n")
    (tmp_path / "conf" / "model" / "dense.yaml").write_text("mine: true\n")
    return tmp_path


def run(app: Path, site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the app with the unpacked wheel before the checkout, which an editable install shows."""
    return subprocess.run(
        [sys.executable, "app.py", *words],
        cwd=app,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_installs_three_packages_and_nothing_else(unpacked: Path) -> None:
    top = {path.name for path in unpacked.iterdir()}
    [info] = [name for name in top if name.endswith(".dist-info")]
    assert top == {"expdb", "expdb_tui", "hydra_plugins", info}
    entry = (unpacked / info / "entry_points.txt").read_text()
    assert "expdb = expdb.cli.start:run" in entry
    conf = unpacked / "expdb" / "conf"
    groups = {path.name for path in conf.iterdir() if path.is_dir()}
    assert groups == {"expdb", "hydra"}
    files = {path.name for path in conf.iterdir() if path.is_file()}
    assert files == {"__init__.py", "folder.py", "script.py"}
    assert {path.suffix for path in (conf / "expdb").rglob("*") if path.is_file()} == {".yaml"}
    assert not (unpacked / "hydra_plugins" / "__init__.py").exists()
    assert not (unpacked / "expdb" / "_hydra").exists()


def test_every_module_is_in_the_wheel(unpacked: Path) -> None:
    def names(root: Path, package: str) -> set[str]:
        found = (path.relative_to(root) for path in (root / package).rglob("*.py"))
        return {str(path) for path in found if not path.parts[1].startswith("_hydra")}

    assert names(unpacked, "expdb") == names(ROOT, "expdb")
    assert names(unpacked, "expdb_tui") == names(ROOT / "tui", "expdb_tui")
    data = {"*.sql", "*.tcss", "py.typed"}
    for pattern in data:
        for path in (ROOT / "expdb").rglob(pattern):
            assert (unpacked / path.relative_to(ROOT)).is_file()
        for path in (ROOT / "tui").rglob(pattern):
            assert (unpacked / path.relative_to(ROOT / "tui")).is_file()


def test_the_sources_hold_no_package_that_would_be_loaded_twice() -> None:
    assert not (ROOT / "conf" / "__init__.py").exists()
    assert not (ROOT / "tui" / "__init__.py").exists()
    assert not list((ROOT / "conf").rglob("*.py"))
    assert not (ROOT / "expdb" / "_hydra" / "hydra_plugins" / "__init__.py").exists()


def test_a_foreign_app_composes_our_group(unpacked: Path, app: Path) -> None:
    done = run(app, unpacked, "--config-name", "config", "+expdb=default", "expdb.print=quiet",
               "hydra.run.dir=out")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"['expdb', 'lr'] 0.5 {unpacked / 'expdb' / '__init__.py'}"
    [folder] = (app / "runs" / "exp=foreign").iterdir()
    assert (folder / "run.json").is_file()


def test_a_foreign_app_is_left_alone(unpacked: Path, app: Path) -> None:
    searched = run(app, unpacked, "--info", "searchpath").stdout
    [ours] = [line for line in searched.splitlines() if line.startswith("| expdb")]
    assert str(unpacked / "expdb" / "conf") in ours
    # Its own groups are found first, and none of the demo's configs is on its path.
    said = run(app, unpacked, "--config-name", "config", "+model=dense", "--cfg", "job").stdout
    assert "mine: true" in said
    done = run(
        app, unpacked, "--config-name", "config", "+exp=baseline", "+optim=adamw", "--cfg", "job"
    )
    assert done.stdout.split() == ["lr:", "0.5", "exp:", "baseline", "optim:", "adamw"]
    # An app without the config it names gets Hydra's error, not ours.
    done = run(app, unpacked, "--config-name", "train", "--cfg", "job")
    assert done.returncode == 1
    assert "Cannot find primary config 'train'" in done.stderr
    assert not (app / "runs").exists()
