"""What a half typed filter can go on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from expdb.index.reader import open_reader
from expdb.query.filters.parser import parse
from expdb.query.filters.suggest import Known, known_of, quoted, suggest, values_of
from tests.query.made import make_run, make_store, write_run

KNOWN = Known(
    metrics=("train/loss", "val/loss", "layer/b.0/grad_norm"),
    keys=("optim.lr", "optim.wd", "model.n_layer", "odd key"),
    values={"state": ("running", "finished", "failed"), "optim.name": ("adamw", "'a b'")},
)


def words(source: str) -> tuple[str, ...]:
    """Return what is suggested where a text ends."""
    return suggest(source, len(source), KNOWN).words


@pytest.mark.parametrize(
    ("source", "first"),
    [
        ("", ("train/loss", "val/loss", "state")),
        ("lo", ("train/loss", "val/loss")),
        ("optim.", ("optim.lr", "optim.wd")),
        ("lr", ("optim.lr",)),
        ("od", ("'odd key'", "model.n_layer")),
        ("layer", ("layer/b.0/grad_norm", "model.n_layer")),
        ("val/loss.", ("val/loss.best", "val/loss.last")),
        ("val/loss.b", ("val/loss.best",)),
        ("val/loss ", ("<", "<=")),
        ("state ", ("=", "!=", "~")),
        ("optim.lr ", ("=", "!=", "<")),
        ("state = ", ("running", "finished", "failed")),
        ("state = f", ("finished", "failed")),
        ("state in (", ("running", "finished", "failed")),
        ("state in (running, fai", ("failed",)),
        ("state in (running ", (",", ")")),
        ("state in (running) ", ("and", "or")),
        ("state = running a", ("and",)),
        ("state = running and not ", ("train/loss", "val/loss")),
        ("(val/loss < 2 or ", ("train/loss", "val/loss")),
        ("val/loss is ", ("nan", "missing", "not")),
        ("val/loss is not ", ("nan", "missing")),
        ("optim.name = 'a", ("adamw", "'a b'")),
    ],
)
def test_what_can_come_next(source: str, first: tuple[str, ...]) -> None:
    found = words(source)
    assert found[: len(first)] == first


def test_the_whole_word_at_the_cursor_is_replaced() -> None:
    found = suggest("state = fin and seed = 1", 10, KNOWN)
    assert (found.start, found.end, found.words[0]) == (8, 11, "finished")
    found = suggest("val/loss < 2 and optim", 5, KNOWN)
    assert (found.start, found.end) == (0, 8)


def test_whatever_is_half_typed_is_no_error() -> None:
    source = 'not (val/loss.best <= 2.5 and \'odd key\' != "x""y") or state in (a, b) !! ((,'
    for cursor in range(len(source) + 1):
        suggest(source, cursor, KNOWN)
        suggest(source[:cursor], cursor, KNOWN)


def test_a_filter_of_suggested_words_follows_the_grammar() -> None:
    source = ""
    for _ in range(3):
        for pick in (1, 0):
            source += suggest(source, len(source), KNOWN).words[pick] + " "
        source += "2 and "
    parse(source.removesuffix("and "))


def test_names_and_values_come_from_the_runs(tmp_path: Path) -> None:
    store = make_store(tmp_path / "runs")
    config = {"optim": {"name": "adam w", "lr": 0.003}, "seed": 0}
    write_run(store, make_run("k3f9x2m7qd", value=1.8, config=config))
    with open_reader(store) as reader:
        known = known_of(reader)
        assert "optim.lr" in known.keys
        assert "val/loss" in known.metrics
        assert values_of(reader, "optim.name") == ["'adam w'"]
        assert values_of(reader, "experiment") == ["baseline"]
        assert values_of(reader, "label") == []
        assert "finished" in values_of(reader, "state")
        for name in ("seed", "study", "age", "commit", "host", "variant", "name", "run", "step",
                     "max_steps", "size", "no such"):  # fmt: skip
            values_of(reader, name)


def test_a_word_of_the_grammar_stands_in_quotes() -> None:
    assert [quoted(word) for word in ("and", "a'b", "x", "")] == ["'and'", "'a''b'", "x", "''"]
