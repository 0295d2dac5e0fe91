"""The filter language: what it takes, what it refuses, and the named cases."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from expdb.errors import BadInput, ExpdbError, NotFound
from expdb.index.reader import Reader, open_reader
from expdb.model import Objective, RunState
from expdb.query.filters.durations import duration_ms, moment_ms
from expdb.query.filters.parser import MAX_DEPTH, MAX_TESTS, parse
from expdb.query.filters.values import number_of
from expdb.query.select import Selection, selected, where_of
from expdb.store.store import Store
from tests.query.conftest import BASELINE_CURVE, CAST
from tests.query.made import MINUTE_MS, make_run, make_store, renamed, write_run

NOW_MS = 1_795_000_000_000 + 100 * 60 * MINUTE_MS
READINGS = "one of: .last  .best  .min  .max  .at(300)"
ALL = [run for run, *_ in CAST]


def ask(reader: Reader, text: str) -> str:
    """Return the first four characters of the selected runs, newest first."""
    found = selected(reader, Selection(where=text), now_ms=NOW_MS)
    return " ".join(run[:4] for run in found)


def refusal(reader: Reader, text: str) -> ExpdbError:
    with pytest.raises(ExpdbError) as error:
        where_of(reader, Selection(where=text), now_ms=NOW_MS)
    return error.value


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("state = finished and val/loss < 1.85", "g2z8 d6v3 k3f9"),
        ("optim.lr >= 5e-3", "h4q8 t1h6"),
        ("optim.lr>=5e-3 AND NOT optim.lr=0.01", "h4q8"),
        ("state in (running, failed)", "x5j2 c7t3"),
        ("state not in (finished, running)", "c7t3 a9m4"),
        ("val/loss is nan", "c7t3"),
        ("not val/loss < 1.9", "x5j2 a9m4 e7s5 h4q8 t1h6"),
        ("eval/cloze/acc is missing", "c7t3"),
        ("eval/cloze/acc is not missing and eval/cloze/acc < 0.4", "x5j2 a9m4 e7s5"),
        ("seed in (1, 2) and experiment = baseline", "p2x7 m8c2"),
        ("experiment = baseline or experiment = exp01 and seed = 0", "h4q8 t1h6 p2x7 m8c2 k3f9"),
        ("(experiment = baseline or exp = exp01) and seed = 0", "h4q8 t1h6 k3f9"),
        ("experiment ~ MOE", "a9m4 v8k2"),
        ("name = 'exp01+optim.lr=0.005'", "h4q8"),
        ("variant ~ lr and state = finished", "h4q8"),
        ("run = k3f9", "k3f9"),
        ("id in (K3F9, t1h6y3cz8r)", "t1h6 k3f9"),
        ("age > 2d and seed = 0", "k3f9"),
        ("age < '45m'", "x5j2 g2z8"),
        ("schedule.kind = cosine", "f0n6 q9r1 d6v3"),
        ("schedule.kind ~ COS and seed != 1", "f0n6 d6v3"),
        ("val/loss.best < 1.84", "g2z8"),
        ("val/loss.max > 5.55", "k3f9"),
        ("'val/loss'.min <= 1.839", "g2z8"),
        ('"optim.lr" = 0.01', "t1h6"),
        ("commit = 4BE1F02 and seed = 2", "f0n6 p2x7"),
        ("commit != 4be1f02", ""),
        ("label = keep", ""),
    ],
)
def test_filters_select_from_the_cast(cast: Reader, text: str, runs: str) -> None:
    assert ask(cast, text) == runs


def test_a_filter_is_a_bound_condition_without_text_of_the_user(cast: Reader) -> None:
    hostile = "experiment = 'x'' OR 1=1 --' or label = \"'); DROP TABLE runs; --\""
    where = where_of(cast, Selection(where=hostile), now_ms=NOW_MS)
    assert "DROP" not in where.sql
    assert "1=1" not in where.sql
    assert ask(cast, hostile) == ""
    assert len(ask(cast, "age >= 0s").split()) == len(ALL)


def test_several_filters_must_all_hold(cast: Reader) -> None:
    both = Selection(where=("seed = 0 or seed = 1", "experiment = baseline"))
    assert [run[:4] for run in selected(cast, both, now_ms=NOW_MS)] == ["m8c2", "k3f9"]
    assert Selection().is_all
    assert where_of(cast, Selection(), now_ms=NOW_MS).sql == "true"


def test_since_is_a_duration_or_a_local_date(cast: Reader) -> None:
    def count(since: str) -> int:
        return len(selected(cast, Selection(since=since), now_ms=NOW_MS))

    assert (count("5h"), count("1d"), count("1d 30m"), count("3d")) == (6, 11, 11, 15)
    assert (count("2020-01-01"), count("2099-01-01T10:00")) == (15, 0)
    with pytest.raises(BadInput) as error:
        selected(cast, Selection(since="yesterday"), now_ms=NOW_MS)
    assert error.value.message == "--since yesterday is no time"


def test_durations_and_moments() -> None:
    assert duration_ms("2d") == 2 * 24 * 60 * MINUTE_MS
    assert duration_ms("5h 30m") == duration_ms("5h30m") == 330 * MINUTE_MS
    assert duration_ms("1.5h") == 90 * MINUTE_MS
    assert [duration_ms(word) for word in ("", "d", "2", "2y", "-2d", "2d x")] == [None] * 6
    assert moment_ms("1970-01-01T00:00:00+00:00") == 0
    assert moment_ms("1970-13-01") is None


def test_numbers_are_those_of_yaml_and_python() -> None:
    known = {"1": 1, "-1.5": -1.5, "1e-3": 0.001, ".5": 0.5, "1_000": 1000, "+2": 2}
    assert {word: number_of(word) for word in known} == known
    assert number_of("inf") == -(number_of("-.inf") or 0) == math.inf
    assert isinstance(number_of("12"), int)
    assert [number_of(word) for word in ("nan", "1e", "0x1", "e3", "1.2.3", "")] == [None] * 6
    odd = ("0_1", "1_", "_1", "1__0", "١", "１", "1e１", "1.0_1")
    assert [number_of(word) for word in odd] == [None] * 8
    assert [duration_ms(word) for word in ("２d", "2_0d")] == [None] * 2
    assert moment_ms("２０２６-01-01") == moment_ms("2026-01-01T０１:00") is None


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("text", "message", "carets"),
    [
        ("", "a name is missing here", "^"),
        ("optim.lr", "after optim.lr stands no comparison", "        ^"),
        ("optim.lr <", "a value is missing after <", "          ^"),
        ("optim.lr = and", "a value is missing after =", "           ^^^"),
        ("seed = 1 a = 2", "the filter should end here, or go on with and, or", " " * 9 + "^"),
        ("(seed = 1", "this bracket is not closed", "^"),
        ("seed = 1)", "the filter should end here, or go on with and, or", "        ^"),
        ("seed in 1", "`in` is followed by values in brackets", "        ^"),
        ("seed in (1 2", "these values are not closed with )", "        ^"),
        ("seed is 1", "`is` is followed by nan or missing", "        ^"),
        ("seed = 0_1", "seed is a number: 0_1 is not a number", "       ^^^"),
        ("seed < ١", "seed is a number: ١ is not a number", "       ^"),
        ("optim.lr >= 0_1", "0_1 is not a number", "            ^^^"),
        ("optim.lr = １", "１ is not a number", "           ^^"),
        ("val/loss < 1_", "val/loss is a metric: 1_ is not a number", "           ^^"),
        ("age < ２d", "２d is not an age", "      ^^^"),
        ("seed ! 1", "! alone means nothing here", "     ^"),
        ("name = 'a", "the quote ' is not closed", "       ^^"),
        ("5 = and", "a value is missing after =", "    ^^^"),
        ("optim.lr = nan", "nothing equals NaN", "           ^^^"),
        ("val/loss = abc", "val/loss is a metric: abc is not a number", "           ^^^"),
        ("val/loss ~ 1", "val/loss is a metric: ~ looks into text", "           ^"),
        ("state < running", "state has no order", "        ^^^^^^^"),
        ("optim.lr > true", "true has no order", "           ^^^^"),
        ("age < old", "old is not an age", "      ^^^"),
        ("seed = '1'.min", "values have no reading: only a metric has one", "       ^^^^^^^"),
    ],
)  # fmt: skip
def test_a_wrong_filter_shows_where(cast: Reader, text: str, message: str, carets: str) -> None:
    error = refusal(cast, text)
    assert isinstance(error, BadInput)
    assert error.message == message
    assert error.details == (text, carets)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("optm.lr > 0.001", "no config key is called optm.lr", "nearest: optim.lr"),
        ("lr > 1", "no field, config key or metric is called lr", "nearest: optim.lr"),
        ("sead = 1", "no field, config key or metric is called sead", "nearest: seed"),
        ("val/los < 1", "no run has a metric val/los", "nearest: val/loss (15 runs)"),
        ("val/loss.mean < 1", "val/loss has no reading mean", READINGS),
        ("state = runing", "no state is called runing", "nearest: running, pending"),
        ("'seed' = 1 and 'no such' = 2", "no config key is called no such", ""),
    ],
)  # fmt: skip
def test_an_unknown_name_names_the_nearest(
    cast: Reader, text: str, message: str, hint: str
) -> None:
    error = refusal(cast, text)
    assert isinstance(error, NotFound)
    assert error.message == message
    assert error.hints[:1] == ((hint,) if hint else ())
    assert error.details[0] == text


def test_the_place_of_an_error_counts_cells_and_stays_near(cast: Reader) -> None:
    wide = refusal(cast, "name = '漢字' and optm.lr > 1")
    assert wide.details[1] == " " * 18 + "^" * 7
    long = refusal(cast, f"name = '{'x' * 500}' and optm.lr > 1")
    shown, carets = long.details
    assert len(shown) < 120
    assert shown[carets.index("^") : len(carets)] == "optm.lr"


def test_too_deep_and_too_many_is_refused_and_never_a_fault() -> None:
    assert parse("not " * MAX_DEPTH + "seed = 1")
    with pytest.raises(BadInput, match="nested more than 50 deep"):
        parse("(" * 10_000 + "seed = 1")
    with pytest.raises(BadInput, match="more than 100 tests"):
        parse(" or ".join(["seed = 1"] * (MAX_TESTS + 1)))


def test_a_store_without_runs_selects_nothing(store: Store) -> None:
    with open_reader(store) as reader:
        assert ask(reader, "optim.lr > 1 and val/loss.best < 2 or x = 1") == ""


# ------------------------------------------------------------------------------------- cases


def test_case_a01_a_nan_answers_no_comparison(store: Store) -> None:
    objective = Objective(metric="val_loss")
    for run, values in (("r1aaaaaaaa", (0.5, 0.4)), ("r2aaaaaaaa", (0.6, math.nan)),
                        ("r3aaaaaaaa", (0.05,)), ("r4aaaaaaaa", ())):  # fmt: skip
        points = {"val_loss": dict(enumerate(values))} if values else {"x": {0: 1.0}}
        write_run(store, make_run(run, points=points, objective=objective))
    with open_reader(store) as reader:
        assert ask(reader, "val_loss < 0.1") == "r3aa"
        assert ask(reader, "val_loss = 0") == ""
        assert ask(reader, "val_loss != 0") == "r3aa r1aa"
        assert ask(reader, "not val_loss < 0.1") == "r1aa"
        assert ask(reader, "val_loss is nan") == "r2aa"
        assert ask(reader, "val_loss is missing") == "r4aa"
        assert ask(reader, "val_loss is not nan") == "r4aa r3aa r1aa"
        assert ask(reader, "val_loss.best < 1") == "r3aa r2aa r1aa"
        assert refusal(reader, "val_loss != nan").hints == ("is nan, or: is not nan",)


HARD_NAMES = (
    "train/loss", "train//loss", "/lead", "trail/", "val/AR@100", "0_iou:recall",
    "huber[delta=1.3]", "a b", "loss", "loss/train", ".hidden", "x" * 300, "🙂", "损失",
    "x' OR 1=1 --", 'a"b', "and", "val/loss.best",
)  # fmt: skip


def test_case_a10_every_metric_name_can_be_filtered_by(store: Store) -> None:
    points = {name: {0: float(at)} for at, name in enumerate(HARD_NAMES)}
    write_run(store, make_run("aaaaaaaaaa", points=points))
    write_run(store, make_run("bbbbbbbbbb", points={"train/loss": {0: 99.0}}))
    with open_reader(store) as reader:
        for at, name in enumerate(HARD_NAMES):
            quoted = "'" + name.replace("'", "''") + "'"
            assert ask(reader, f"{quoted} = {at} and {quoted}.best = {at}") == "aaaa", name
        for name in ("train//loss", "/lead", "val/AR@100", "0_iou:recall", "损失", "loss"):
            assert ask(reader, f"{name} >= 0") == "aaaa"
        assert ask(reader, "val/loss.best = 17") == "aaaa"  # a name of its own


def test_case_a13_text_that_looks_like_a_number_stays_text(store: Store) -> None:
    values = {"aaaaaaaaaa": 1e-3, "bbbbbbbbbb": "1e-3", "cccccccccc": 1e-5, "dddddddddd": None,
              "eeeeeeeeee": "None", "ffffffffff": True, "gggggggggg": 0}  # fmt: skip
    for run, value in values.items():
        write_run(store, make_run(run, config={"lr": value}))
    with open_reader(store) as reader:
        assert ask(reader, "lr < 1") == "gggg cccc aaaa"
        assert ask(reader, "lr = 0.00001") == "cccc"
        assert ask(reader, "lr = '1e-3'") == "bbbb"
        assert ask(reader, "lr = null") == "dddd"
        assert ask(reader, "lr = 'None'") == "eeee"
        assert ask(reader, "lr = true") == "ffff"
        assert ask(reader, "lr != 0") == "cccc aaaa"
        where = where_of(reader, Selection(where="lr < 1"), now_ms=NOW_MS)
        assert where.warnings == ("lr is text in 2 runs, which no number is compared with",)


def test_a_key_left_open_is_missing(store: Store) -> None:
    write_run(store, make_run("aaaaaaaaaa", config={"a": 1}))
    open_key = make_run("bbbbbbbbbb", config={"b": 1}).canonical.replace("1", '{"$missing":true}')
    write_run(store, renamed(make_run("bbbbbbbbbb"), canonical=open_key))
    with open_reader(store) as reader:
        assert ask(reader, "b is missing") == "bbbb aaaa"
        assert ask(reader, "b != null or b = null") == ""


# ---------------------------------------------------------------------------- steps and more


def test_a_metric_at_a_step_is_read_from_the_points(cast: Reader) -> None:
    assert BASELINE_CURVE[250] == 1.913
    assert ask(cast, "val/loss.at(250) < 2") == "k3f9"
    assert ask(cast, "not val/loss.at(250) < 2") == ""
    assert ask(cast, "val/loss.at(300) < 1.85") == "g2z8 d6v3 k3f9"
    assert ask(cast, "val/loss.at(251) is missing and seed = 2") == "f0n6 p2x7"
    assert ask(cast, "val/loss.at(50) is nan or val/loss.at(50) = 2.670") == "c7t3 k3f9"


def test_points_are_read_only_of_runs_that_the_rest_could_select(
    store: Store, tmp_path: Path
) -> None:
    curve = {0: 5.0, 100: 3.0, 200: 4.0, 300: 2.0}
    points = {"val/loss": curve}
    write_run(store, make_run("aaaaaaaaaa", points=points), points=points)
    damaged = write_run(store, make_run("bbbbbbbbbb", seed=1, points=points), points=points)
    for part in damaged.rglob("*.parquet"):
        part.write_bytes(b"no parquet")
    with open_reader(store) as reader:
        chosen = where_of(reader, Selection(where="seed = 0 and val/loss.at(200) = 4"), now_ms=0)
        assert chosen.warnings == ()
        both = where_of(reader, Selection(where="val/loss.at(200) = 4"), now_ms=0)
        assert len(both.warnings) == 1
        assert both.warnings[0].startswith("bbbbbbbbbb: ")
        assert ask(reader, "seed = 0 and val/loss.at(200) = 4") == "aaaa"


def test_best_follows_the_declared_direction_then_the_name(store: Store) -> None:
    points = {"val/x": {0: 1.0, 1: 9.0}, "val/acc": {0: 0.1, 1: 0.9, 2: 0.5}}
    highest = Objective(metric="val/x", mode="max")
    write_run(store, make_run("aaaaaaaaaa", points=points, objective=highest))
    write_run(store, make_run("bbbbbbbbbb", points=points, objective=None))
    with open_reader(store) as reader:
        assert ask(reader, "val/x.best = 9") == "aaaa"
        assert ask(reader, "val/x.best = 1") == "bbbb"
        assert ask(reader, "val/acc.best = 0.9") == "bbbb aaaa"


def test_labels_hosts_and_studies(store: Store) -> None:
    write_run(store, make_run("aaaaaaaaaa", study="lr sweep"))
    path = write_run(store, make_run("bbbbbbbbbb"), old=False)
    (path / "marks.jsonl").write_text(
        '{"kind":"label","text":"keep","created_at_ms":1}\n'
        '{"kind":"label","text":"Paper 2","created_at_ms":2}\n'
    )
    with open_reader(store) as reader:
        assert ask(reader, "label = keep") == "bbbb"
        assert ask(reader, "label in (x, 'Paper 2')") == "bbbb"
        assert ask(reader, "label ~ paper") == "bbbb"
        assert ask(reader, "label != keep") == ask(reader, "label is missing") == "aaaa"
        assert ask(reader, "host is not missing") == "bbbb aaaa"
        assert ask(reader, "study = 'lr sweep'") == "aaaa"
        assert ask(reader, "study is missing") == "bbbb"
        assert selected(reader, Selection(study="lr sweep"), now_ms=0) == ["aaaaaaaaaa"]
        with pytest.raises(NotFound) as error:
            selected(reader, Selection(study="lr swep"), now_ms=0)
        assert error.value.hints == ("nearest: lr sweep (1 run)",)


def test_a_filter_asks_few_queries_however_many_tests_it_has(tmp_path: Path) -> None:
    store = make_store(tmp_path / "many")
    for at in range(3):
        write_run(store, make_run(f"a{at:09d}", value=2.0 + at, state=RunState.FINISHED))
    with open_reader(store) as reader:
        asked: list[str] = []
        rows = reader.rows
        reader.rows = lambda sql, params=(): asked.append(sql) or rows(sql, params)  # type: ignore
        text = "optim.lr > 0 and val/loss < 9 and val/loss.best < 9 and seed = 0 and 'seed' = 0"
        assert len(selected(reader, Selection(where=text), now_ms=NOW_MS)) == 3
        assert len(asked) == 4  # two for names, one for text among numbers, the selection
