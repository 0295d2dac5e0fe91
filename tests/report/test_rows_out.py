"""Rows for other programs: CSV, Markdown, JSON lines; and lists with columns of their own."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

from expdb.query.results import Listing, ShownColumn
from expdb.report import listing, ranking
from expdb.report.json import run_row
from expdb.report.rows_out import jsonl, markdown, write_csv
from tests.report.test_listing_lines import make_listing, make_ranking


def test_csv_reads_back_equal():
    row = [1.0, 0.1, math.nan, -math.inf, None, True, "a,b", 'say "x"', [1, "ü"], 3, 5e-324]
    text = write_csv([str(at) for at in range(len(row))], [row])
    _, back = list(csv.reader(io.StringIO(text)))
    assert back == [
        "1.0", "0.1", "NaN", "-Infinity", "", "true", "a,b", 'say "x"', '[1, "ü"]', "3", "5e-324",
    ]  # fmt: skip


def test_no_cell_opens_a_line_or_reaches_the_terminal():
    hostile = "a\nb\r\x1b[31m\u2028c"
    text = write_csv(["x", hostile], [["y", hostile]])
    assert len(text.splitlines()) == 2
    assert "\x1b" not in text
    lines = markdown(["x", "y"], [["<img src=x>", "a|b\n`c` [d](e) *f*"]], right=[1])
    assert lines == [
        "| x | y |",
        "| --- | ---: |",
        "| \\<img src=x\\> | a\\|b\\\\x0a\\`c\\` \\[d\\](e) \\*f\\* |",
    ]


def test_json_lines_are_one_document_a_line():
    text = jsonl([{"a": math.nan}, {"b": "x\ny"}])
    assert [json.loads(line) for line in text.splitlines()] == [{"a": "NaN"}, {"b": "x\ny"}]


def test_ls_as_csv_has_whole_ids_and_unrounded_numbers(cast, golden):
    text = write_csv(*listing.table(make_listing(cast)))
    golden("ls.csv", text.splitlines())
    head, *rows = list(csv.reader(io.StringIO(text)))
    assert head[:6] == ["run", "experiment", "seed", "state", "step", "val/loss"]
    assert rows[2][0] == "c7t3b9q5nv"
    assert rows[2][5] == "NaN"


def test_rank_as_csv_and_markdown(cast, screen, golden):
    made = make_ranking(cast)
    golden("rank.csv", write_csv(*ranking.table(made)).splitlines())
    golden("rank.md", ranking.to_markdown(made, screen()))


def with_columns(cast) -> Listing:
    """Return a list with columns of its own; the second run lacks both values."""
    extra = ({"optim.lr": 0.003, "val/loss.best": 2.1, "label": ["keep", "a b"]}, {})
    rows = tuple(replace(row, extra=some) for row, some in zip(cast.rows[:2], extra, strict=True))
    columns = (
        ShownColumn("run"),
        ShownColumn("experiment"),
        ShownColumn("optim.lr", "key"),
        ShownColumn("val/loss.best", "metric"),
        ShownColumn("label", "field"),
        ShownColumn("age"),
    )
    return replace(make_listing(cast, rows), columns=columns)


def test_columns_asked_for_stand_where_they_were_asked_for(cast, screen, golden):
    made = with_columns(cast)
    golden("ls-columns-100.txt", listing.render(made, screen()))
    golden("ls-columns-pipe.txt", listing.render(made, screen(terminal=False, ascii=True)))
    begun = [run_row(row)["created_at"] for row in made.rows]
    assert listing.table(made)[1] == [
        ["x5j2v8c0ke", "exp05_overfit", 0.003, 2.1, ["keep", "a b"], begun[0]],
        ["g2z8r5n1fs", "exp07_zloss", None, None, None, begun[1]],
    ]
    assert run_row(made.rows[0])["columns"]["label"] == ["keep", "a b"]
    assert listing.to_markdown(made, screen())[0] == (
        "| run | experiment | optim.lr | val/loss.best | label | age |"
    )


def test_a_hostile_column_is_shown_as_text(cast, screen):
    made = replace(
        with_columns(cast),
        columns=(
            ShownColumn("run"),
            ShownColumn("\x1b[31mk", "key"),
            ShownColumn("label", "field"),
        ),
    )
    rows = tuple(
        replace(row, extra={"\x1b[31mk": "\x1b]0;x\x07", "label": ["\u202ea"]}) for row in made.rows
    )
    lines = listing.render(replace(made, rows=rows), screen())
    assert not any("\x1b" in line or "\u202e" in line for line in lines)


def test_best_is_one_line_and_says_what_it_is_not(cast, screen):
    made = make_ranking(cast)
    assert ranking.best_line(made, screen()) == (
        "g2z8r5n1fs  exp07_zloss  seed 0  val/loss 1.839 @300"
    )
    assert ranking.best_hint(made, screen(), rolls_back=True) == (
        "not better than baseline (1.848) beyond noise ±0.022; rollback would take baseline"
    )
    assert ranking.best_hint(made, screen(), rolls_back=False).endswith("noise ±0.022")
    unknown = ranking.best_hint(replace(made, noise=None), screen(), rolls_back=False)
    assert unknown == "against baseline (1.848) nothing can be said: its noise is not known"
    better = replace(made, rows=(cast.rows[-1],))
    assert ranking.best_hint(better, screen(), rolls_back=True) == ""


def test_where_seeds_may_tell_more_rank_proposes_them(cast):
    made = make_ranking(cast)
    assert ranking.next_commands(made) == [("seeds", "expdb rank --over seed")]
    assert ranking.next_commands(made, "a b") == [("seeds", "expdb rank 'a b' --over seed")]
    alone = replace(made, rows=made.rows[:2])
    assert ranking.next_commands(alone) == []
