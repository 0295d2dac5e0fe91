"""The docs say what the code does: commands exist, links lead somewhere, settings are listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from expdb.cli.verbs import ALIASES, all_verbs
from expdb.track.settings import DEFAULTS

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len(text("README.md").splitlines()) <= 120


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_test_files_exist(path: Path) -> None:
    said = path.read_text(encoding="utf-8")
    for name in re.findall(r"\btests/[\w/]+\.py\b", said):
        assert (ROOT / name).is_file(), f"{path.name} names {name}"
    there = {found.name for found in (ROOT / "tests").rglob("test_*.py")}
    unknown = set(re.findall(r"\btest_\w+\.py\b", said)) - there
    assert not unknown, f"{path.name} names {unknown}"


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_commands_exist(path: Path) -> None:
    if path.name == "CHANGELOG.md":
        return
    said = re.findall(r"(?:^|`|    )expdb ([a-z]+)\b", path.read_text(encoding="utf-8"), re.M)
    unknown = {verb for verb in said if verb not in {*all_verbs(), *ALIASES}}
    assert not unknown, f"{path.name} names {unknown}"


def test_every_setting_is_documented() -> None:
    table = text("docs/configuration.md")
    for key, value in DEFAULTS.items():
        inner = [f"{key}.{name}" for name in value] if isinstance(value, dict) and value else []
        assert f"`{key}`" in table or all(f"`{name}`" in table for name in inner), key


def test_make_targets_of_the_readme_exist() -> None:
    makefile = text("Makefile")
    for target in re.findall(r"\bmake ([a-z]+)", text("README.md")):
        assert re.search(rf"^{target}:", makefile, re.M), target
