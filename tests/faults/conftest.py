"""Full and read-only file systems, a script in no repository, and the count of the faults."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.counting import Tally

Mount = Callable[[str], Path]


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Tally:
    """The count of this test."""
    return Tally(request.node)


@pytest.fixture(autouse=True)
def own_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runs belong to a script outside every repository: no code is pinned here."""
    script = tmp_path / "train.py"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def mount(*words: str) -> None:
    """Mount, or skip the test where that is not allowed."""
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")


@pytest.fixture
def small_disk() -> Iterator[Mount]:
    """Make a file system in memory of the given size (`2m`)."""
    places: list[Path] = []

    def make(size: str) -> Path:
        place = Path(tempfile.mkdtemp(prefix="expdb-disk-"))
        mount("-t", "tmpfs", "-o", f"size={size},mode=0755", "none", str(place))
        places.append(place)
        return place

    yield make
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()


@pytest.fixture
def frozen() -> Iterator[Callable[[Path], Path]]:
    """Show a folder at another place where it cannot be written."""
    places: list[Path] = []

    def make(folder: Path) -> Path:
        place = Path(tempfile.mkdtemp(prefix="expdb-frozen-"))
        mount("--bind", str(folder), str(place))
        places.append(place)
        mount("-o", "remount,bind,ro", str(place))
        return place

    yield make
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()
