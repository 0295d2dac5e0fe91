"""Every key at odd moments: nothing fails, and nothing is written that was not confirmed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from expdb_tui.app import ExpdbApp
from expdb_tui.session import Session
from tests.tui.driving import settle
from tests.tui.monkey import Monkey, Troubles, digest_of, keys_of_app

KEYS = 300
SEEDS = range(1, 13)


def play(session: Session, seed: int, monkeypatch: pytest.MonkeyPatch) -> Monkey:
    """Press keys while the store is there, then gone, then there again."""
    troubles, root = Troubles(), session.store.root
    troubles.watch(monkeypatch)
    away = root.with_name("away")
    found: list[Monkey] = []

    async def story() -> None:
        app = ExpdbApp(session)
        async with app.run_test(size=(80, 24)) as pilot:
            monkey = Monkey(seed, app, pilot)
            found.append(monkey)
            await monkey.press(KEYS * 3 // 5)
            root.rename(away)
            await monkey.press(KEYS // 5)
            away.rename(root)
            await monkey.press(KEYS // 5)
            await settle(app, pilot)
            assert app.is_running

    before = digest_of(session.directory)
    try:
        asyncio.run(story())
        assert not troubles.found
        assert digest_of(session.directory) == before, "something was written"
    except BaseException as error:
        error.add_note(f"seed {seed}, keys: {' '.join(found[0].pressed)}")
        raise
    return found[0]


def test_keys_are_those_of_all_screens() -> None:
    known = set(keys_of_app())
    assert {
        "G",
        "b",
        "t",
        "n",
        "u",
        "R",
        "C",
        "colon",
        "slash",
        "tab",
        "left_square_bracket",
    } <= known
    assert "q" not in known


def test_keys_at_odd_moments(own_session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(play(own_session, 0, monkeypatch).pressed) >= KEYS


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_keys_in_a_project(own_lab: Session, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    play(own_lab, seed, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_keys_in_an_empty_store(
    empty_session: Session, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play(empty_session, seed, monkeypatch)
