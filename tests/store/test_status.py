from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import Corrupt
from expdb.store import files
from expdb.store.layout import RunLayout
from expdb.store.status import STORED_STATES, Status, read_status, sizes, write_status

MakeRun = Callable[..., RunLayout]


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(tmp_path)


def test_a_status_comes_back_with_the_sizes_of_all_files(layout: RunLayout) -> None:
    for name, size in (
        ("run.json", 3),
        ("checkpoints/step=3/model.pt", 5),
        ("attempts/1/log.txt", 0),
    ):
        path = layout.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (layout.root / ".tmp-series.json-1").write_bytes(b"half")
    (layout.checkpoints / ".tmp-step=4").mkdir()
    (layout.checkpoints / ".tmp-step=4" / "model.pt").write_bytes(b"half")
    (layout.root / "link").symlink_to("run.json")
    for state in sorted(STORED_STATES):
        write_status(
            layout,
            Status(state=state, reason="é", attempt=2, last_step=7, max_steps=9, num_dropped=4),
        )
        found = read_status(layout)
        assert (found.state, found.reason, found.attempt) == (state, "é", 2)
        assert (found.last_step, found.max_steps, found.num_dropped) == (7, 9, 4)
        assert found.files == {
            "attempts/1/log.txt": 0, "checkpoints/step=3/model.pt": 5, "run.json": 3,
        }  # fmt: skip


def test_what_a_later_expdb_wrote_is_kept(layout: RunLayout) -> None:
    write_status(layout, Status())
    data = files.read_json(layout.status_json)
    files.write_json(layout.status_json, {**data, "cost_eur": 3.5, "notes": {"a": 1}})
    status = read_status(layout)
    status.state = "crashed"
    write_status(layout, status)
    after = json.loads(layout.status_json.read_text())
    assert (after["cost_eur"], after["notes"], after["state"]) == (3.5, {"a": 1}, "crashed")
    assert after["format"] == 1


def test_files_that_go_while_they_are_counted_are_left_out(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/1", "b/2", "c/3"):
        (layout.root / name).parent.mkdir()
        (layout.root / name).write_bytes(b"x")
    real = Path.__truediv__

    def going(self: Path, name: Any) -> Path:
        if name == "b/" and (real(self, "b")).exists():
            (layout.root.joinpath("b", "2")).unlink()
            (layout.root.joinpath("b")).rmdir()
        return real(self, name)

    monkeypatch.setattr(Path, "__truediv__", going)
    assert sizes(layout.root) == {"a/1": 1, "c/3": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"state": "sleeping"}, {"state": None}, {"state": ["running"]}, {"attempt": "1"},
        {"last_step": "7"}, {"last_step": 1.5}, {"files": []}, {"files": {"a": "b"}},
        {"files": None}, {"reason": 5}, {"num_dropped": None}, {"ended_at_ms": "now"},
    ],
)  # fmt: skip
def test_a_damaged_status_is_named(layout: RunLayout, change: dict[str, Any]) -> None:
    write_status(layout, Status())
    files.write_json(layout.status_json, {**files.read_json(layout.status_json), **change})
    with pytest.raises(Corrupt, match=rf"status\.json is damaged at `{next(iter(change))}`"):
        read_status(layout)


def test_no_status_is_not_damage(layout: RunLayout) -> None:
    with pytest.raises(FileNotFoundError):
        read_status(layout)
