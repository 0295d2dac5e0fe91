"""What the app remembers of a store, and the keys that a user chose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from expdb.errors import BadInput
from expdb_tui.app import usual_keys
from expdb_tui.keys import SHARED, KeyNames, read_keys
from expdb_tui.memory import Memory, memory_of
from expdb_tui.places import keys_file, state_folder
from expdb_tui.runs.screen import RunsScreen
from expdb_tui.session import Session
from tests.tui.driving import drive, press, screen_of, type_in


def memory(session: Session, folder: Path) -> Memory:
    """Return the memory of a store as the next start finds it."""
    found = memory_of(session.store, folder)
    found.load()
    return found


@pytest.mark.slow
def test_how_a_store_was_looked_at_is_there_again(session: Session, tmp_path: Path) -> None:
    async def leave(app, pilot):
        await press(app, pilot, "s", "s", "g", "slash")
        await type_in(app, pilot, "val/loss < 3")
        await press(app, pilot, "enter", "4", "y", "v", "plus", "5")

    async def come_back(app, pilot):
        assert app.current_mode == "matrix"
        await press(app, pilot, "1")
        runs = app.screen
        assert isinstance(runs, RunsScreen)
        assert (runs.sort, runs.view, runs.filter) == ("experiment", "fold", "val/loss < 3")
        assert "filter val/loss < 3" in screen_of(app)[1]
        await press(app, pilot, "4")
        view = app.screen.view
        assert view.has_bands
        assert view.turned == {"train/loss"}
        assert view.window

    folder = tmp_path / "state"
    drive(session, leave, memory=memory(session, folder), ground="light")
    [file] = folder.iterdir()
    assert json.loads(file.read_text())["app"]["ground"] == "light"
    drive(session, come_back, memory=memory(session, folder))


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"format": 9}', "\udce9", '{"format": 1, "a": 7']
)
def test_a_damaged_memory_is_said_and_forgotten(
    session: Session, tmp_path: Path, damage: str
) -> None:
    file = memory_of(session.store, tmp_path)._path
    file.write_text(damage, errors="surrogateescape")
    found = memory(session, tmp_path)
    assert "what was remembered is forgotten" in found.problem
    assert found.of("runs") == {}


@pytest.mark.slow
def test_what_no_screen_can_have_remembered_is_left_out(session: Session, tmp_path: Path) -> None:
    file = memory_of(session.store, tmp_path)._path
    odd = {"app": {"screen": []}, "runs": {"sort": 7}, "plot": {"x": "mass"}, "run": 1}
    file.write_text(json.dumps({"format": 1, **odd}))

    async def story(app, pilot):
        assert "remembered" in screen_of(app)[-1]
        await press(app, pilot, "4", "2", "1")
        assert len(app.screen.lines) == 3
        assert app.screen.sort is None

    drive(session, story, memory=memory(session, tmp_path))
    kept = memory(session, tmp_path)
    assert not kept.problem
    assert kept.of("app")["screen"] == "runs"


def test_a_filter_that_holds_no_more_is_dropped(session: Session, tmp_path: Path) -> None:
    gone = memory(session, tmp_path)
    gone.save({"runs": {"filter": "nosuch/metric < 1", "sort": "", "view": "list"}})

    async def story(app, pilot):
        assert len(app.screen.lines) == 3
        assert "no run has a metric nosuch/metric" in screen_of(app)[-1]

    drive(session, story, memory=memory(session, tmp_path))


def test_what_cannot_be_written_is_said_once(session: Session, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = memory_of(session.store, tmp_path / "file")
    found.save({"app": {"screen": "runs"}})
    assert "nothing is remembered" in found.problem
    assert not found.is_on
    nothing = Memory(None)
    nothing.save({"app": {"screen": "runs"}})
    assert not nothing.changed({"app": {}})
    forgotten = memory(session, tmp_path)
    forgotten.save({"app": {"screen": "plot"}})
    forgotten.forget()
    assert memory(session, tmp_path).of("app") == {}


def test_the_folders_are_those_of_the_desktop_rules(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert keys_file(home) == tmp_path / ".config/expdb/keys.yaml"
    assert state_folder(home) == tmp_path / ".local/state/expdb/tui"
    assert keys_file({**home, "XDG_CONFIG_HOME": "/c"}) == Path("/c/expdb/keys.yaml")
    assert state_folder({**home, "XDG_STATE_HOME": "rel"}) == tmp_path / ".local/state/expdb/tui"


# ---------------------------------------------------------------------------------- keys


def keys(tmp_path: Path, text: str) -> KeyNames:
    """Return the keys of a file."""
    (tmp_path / "keys.yaml").write_text(text)
    return read_keys(tmp_path / "keys.yaml", usual_keys())


def test_on_no_screen_has_a_key_two_meanings() -> None:
    usual = usual_keys()
    assert len(usual) > 60
    for scope in {name.split(".")[0] for name in usual}:
        own = [name for name in usual if name.split(".")[0] in (scope, *SHARED)]
        taken = [key for name in own for key in usual[name]]
        assert sorted(set(taken)) == sorted(taken), scope


@pytest.mark.slow
def test_own_keys_work_and_stand_in_the_foot_and_the_help(session: Session, tmp_path: Path) -> None:
    own = keys(
        tmp_path, "runs.mark: m\nrun.next_tab: [tab, f2]\nmove.down: w\neverywhere.help: H\n"
    )

    async def story(app, pilot):
        assert "m mark" in screen_of(app)[-1]
        assert screen_of(app)[-1].endswith("H help")
        await press(app, pilot, "w", "space")
        assert len(app.chosen) == 0
        await press(app, pilot, "m")
        assert len(app.chosen) == 1
        await press(app, pilot, "H")
        assert any(line.split()[:2] == ["m", "mark"] for line in screen_of(app))
        await press(app, pilot, "escape", "enter", "f2")
        assert app.screen.tab.NAME == "Log"
        await press(app, pilot, "right_square_bracket")
        assert app.screen.tab.NAME == "Log"

    drive(session, story, size=(100, 30), keys=own)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs.mrk: m", "no key is called runs.mrk"),
        ("runs.mark: ctrl+nonsense", "runs.mark: 'ctrl\\+nonsense' is no key"),
        ("runs.mark: s", "s is both runs.mark and runs.sort"),
        ("everywhere.quit: y", "y is both everywhere.quit and (plot|run).log"),
        ("[1, 2]", "holds no names with keys"),
        ("a: [", "cannot be read"),
        ("\x00", "cannot be read"),
    ],
)
def test_a_bad_file_of_keys_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        keys(tmp_path, text)


def test_the_list_of_keys_is_a_file_of_keys(tmp_path: Path) -> None:
    usual = KeyNames(usual_keys())
    again = keys(tmp_path, "\n".join(usual.as_file()))
    assert {name: again.keys(name) for name in usual.usual} == usual.usual
    swapped = keys(tmp_path, "runs.mark: s\nruns.sort: space")
    assert swapped.keys("runs.sort") == ("space",)
    assert keys(tmp_path, "").own == {}
    assert read_keys(tmp_path / "none.yaml", usual.usual).own == {}
