"""A run of which a file is damaged: the file is named, and the rest is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expdb.errors import Corrupt, NotFound, Unsupported
from expdb.model import Run, RunState
from expdb.store import fields
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout

MakeRun = Callable[..., RunLayout]


Read = Callable[[RunLayout], Run]


GARBAGE = [b"", b"\0" * 40, b"{", b"[]", b"null", b"\xff\xfe", b'"x"', b"[" * 50_000]


@pytest.mark.parametrize("data", GARBAGE)
@pytest.mark.parametrize(
    "name",
    [
        "status.json",
        "series.json",
        "attempts/1/pin.json",
        "evals/e1.json",
        "marks.jsonl",
        "events.jsonl",
    ],
)
def test_a_damaged_file_is_a_problem_that_names_it(
    whole: RunLayout, read: Read, name: str, data: bytes
) -> None:
    end = b"\n" if name.endswith("l") else b""
    (whole.root / name).write_bytes(data + end)
    run = read(whole)
    if data + end == b"\n":
        assert run.problems == ()
        return
    assert len(run.problems) == 1
    assert name.rpartition("/")[2] in run.problems[0]
    assert run.experiment == "baseline"
    if name != "status.json":
        assert run.state is RunState.FINISHED


@pytest.mark.parametrize(
    "name",
    [
        "status.json", "series.json", "attempts/1/pin.json", "evals/e1.json", "marks.jsonl",
        "events.jsonl",
    ],
)  # fmt: skip
def test_a_folder_where_a_file_should_be_is_a_problem(
    whole: RunLayout, read: Read, name: str
) -> None:
    (whole.root / name).unlink()
    (whole.root / name).mkdir()
    assert len(read(whole).problems) == 1


@pytest.mark.parametrize("name", ["evals", "attempts", "checkpoints"])
def test_a_file_where_a_folder_should_be_is_survived(
    whole: RunLayout, read: Read, name: str
) -> None:
    shutil.rmtree(whole.root / name)
    (whole.root / name).write_text("x")
    run = read(whole)
    assert run.state is RunState.FINISHED
    if name != "attempts":
        assert run.problems == (f"{name} cannot be read: a part of the path is a file",)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


EDITED = (
    "run.json", "status.json", "series.json", "attempts/1/pin.json", "attempts/1/rank-0.json",
    "attempts/1/owner.json", "evals/e1.json", "checkpoints/step=4/manifest.json",
)  # fmt: skip


def places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value inside a JSON value."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [at, *(found for key, item in items for found in places(item, (*at, key)))][
        bool(not at) :
    ]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(EDITED), JSON, st.data())
def test_a_value_of_any_other_type_is_named_and_never_another_error(
    whole: RunLayout, read: Read, name: str, value: Any, data: st.DataObject
) -> None:
    path = whole.root / name
    was = path.read_bytes()
    content = json.loads(was)
    at = data.draw(st.sampled_from(places(content)))
    inner = content
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    path.write_text(json.dumps(content))
    try:
        run = read(whole)
    except (Corrupt, Unsupported):
        assert name == "run.json"
        return
    finally:
        path.write_bytes(was)
    for number in (run.created_at_ms, run.last_step, run.max_steps, run.ended_at_ms):
        assert number is None or (type(number) is int and abs(number) <= 2**63)
    assert all(type(item) is str for item in (*run.command, *run.labels, run.digest, run.reason))
    for item in run.series.values():
        assert type(item.count) is int
        assert type(item.last) is float
    for attempt in run.attempts:
        assert all(type(item) is str for item in (*attempt.pin.used.values(), *attempt.pin.reasons))
    for checkpoint in run.checkpoints:
        assert type(checkpoint.bytes) is int


def test_a_mistake_of_ours_is_not_taken_for_a_damaged_file(
    whole: RunLayout, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*args: object) -> None:
        raise AttributeError("a typo")

    for module, name in (
        (fields, "mapping"), (fields, "mappings"), (fields, "choice"), (fields, "maybe_real")
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(module, name, wrong)
            with pytest.raises(AttributeError):
                read(whole)


@pytest.mark.parametrize("data", GARBAGE)
def test_a_damaged_run_json_is_an_error_that_names_it(
    whole: RunLayout, read: Read, data: bytes
) -> None:
    whole.run_json.write_bytes(data)
    with pytest.raises(Corrupt, match=r"run\.json"):
        read(whole)


@pytest.mark.parametrize(
    "change",
    [
        {"variant": 5}, {"seed": 1.5}, {"seed": True}, {"digest": None}, {"command": [1]},
        {"canonical": {}}, {"created_at_ms": 2**70}, {"parent": {"run": 5}},
        {"objective": {"metric": "a", "mode": []}},
        {"id": "t1h6y3cz8r"}, {"id": None}, {"experiment": ""}, {"experiment": 5}, {"seed": "x"},
        {"created_at_ms": None}, {"parent": 5}, {"parent": {}},
        {"parent": {"run": "a", "step": []}},
        {"objective": {"mode": "min"}}, {"objective": {"metric": "a", "mode": "up"}},
        {"objective": []}, {"settings": 5}, {"command": None}, {"format": "1", "id": 5},
    ],
)  # fmt: skip
def test_a_run_json_of_other_types_is_an_error_that_names_it(
    whole: RunLayout, read: Read, change: dict[str, Any]
) -> None:
    write_json(whole.run_json, {**read_json(whole.run_json), **change})
    with pytest.raises(Corrupt, match=r"run\.json"):
        read(whole)


def test_a_newer_run_and_a_folder_that_is_no_run(whole: RunLayout, read: Read) -> None:
    write_json(whole.run_json, {"format": 2, "needs": "9.9"})
    with pytest.raises(Unsupported, match="format 2") as caught:
        read(whole)
    assert "9.9" in caught.value.hints[0]
    whole.run_json.unlink()
    with pytest.raises(NotFound):
        read(whole)


@pytest.mark.parametrize(
    "line",
    [
        '{"step":[]}',
        '{"step":"x"}',
        '{"created_at_ms":null}',
        "5",
        "{",
        "\\ufffd",
        '{"severity":5}',
        '{"severity":"loud"}',
        '{"step":true}',
        '{"step":1e400}',
        '{"step":99999999999999999999}',
        '{"message":null}',
    ],
)
def test_a_damaged_line_is_named_and_the_others_are_read(
    whole: RunLayout, read: Read, line: str
) -> None:
    good = whole.events.read_text()
    whole.events.write_text(good + line + "\n" + good)
    run = read(whole)
    assert run.problems == ("events.jsonl: line 2 is damaged",)
    assert len(run.events) == 2


def test_a_line_torn_by_the_death_of_its_writer_is_no_damage(whole: RunLayout, read: Read) -> None:
    with whole.events.open("a") as file:
        file.write('{"step":4,"seve')
    assert (len(read(whole).events), read(whole).problems) == (1, ())


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": []},
        {"metrics": {"a": "x"}},
        {"metrics": {"a": "1.5"}},
        {"step": None},
        {"metrics": {"a": 10**400}},
        {"n": "x"},
        {"n": 1.5},
        {"task": 5},
        {"id": None},
    ],
)
def test_a_damaged_eval_is_named(whole: RunLayout, read: Read, change: dict[str, Any]) -> None:
    path = whole.evals / "e1.json"
    write_json(path, {**read_json(path), **change})
    assert read(whole).problems == ("evals/e1.json is damaged",)
