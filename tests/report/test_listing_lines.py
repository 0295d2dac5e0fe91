from __future__ import annotations

from dataclasses import replace

from expdb.model import RunState
from expdb.query.results import Delta, Listing, Outcome, Ranking
from expdb.report import listing, ranking
from expdb.report.words import delta_cell
from expdb.text import cells


def make_listing(cast, rows=None):
    rows = cast.rows if rows is None else rows
    return Listing(rows=rows, num_all=len(rows), baseline=cast.rows[-1], metric="val/loss")


def make_ranking(cast, **change):
    finished = sorted((r for r in cast.rows if r.state == "finished"), key=lambda r: r.value)
    by_id = {row.id[:4]: row for row in cast.rows}
    made = Ranking(
        objective=cast.loss,
        noise=cast.noise,
        rows=tuple(finished),
        num_tied=7,
        num_all=len(finished),
        not_ranked=(
            (by_id["c7t3"], "NaN since step 50"),
            (by_id["a9m4"], "crashed"),
            (by_id["x5j2"], "running"),
        ),
        apart=(),
        baseline=cast.rows[-1],
        extra_metrics=("eval/cloze/acc",),
    )
    return replace(made, **change)


def test_ls_at_100_columns(cast, screen, golden):
    golden("ls-100.txt", listing.render(make_listing(cast), screen()))


def test_ls_at_80_columns_drops_the_code_and_the_word(cast, screen, golden):
    lines = listing.render(make_listing(cast), screen(width=80))
    assert max(cells(line) for line in lines) <= 80
    golden("ls-80.txt", lines)


def test_ls_narrower_still_cuts_names_in_the_middle(cast, screen, golden):
    lines = listing.render(make_listing(cast), screen(width=60))
    assert max(cells(line) for line in lines) <= 60
    golden("ls-60.txt", lines)


def test_ls_in_a_pipe_is_ascii_and_splits_into_equal_fields(cast, screen, golden):
    lines = listing.render(make_listing(cast), screen(terminal=False, ascii=True))
    golden("ls-pipe.txt", lines)
    assert all(line.isascii() for line in lines)
    assert {len([f for f in line.split("  ") if f.strip()]) for line in lines} == {9}


def test_a_paused_run_has_a_word_and_a_sign_of_its_own(cast, screen, golden):
    held = replace(cast.rows[0], state=RunState.PAUSED)
    found = make_listing(cast, (held, *cast.rows[1:4]))
    golden("ls-paused-100.txt", listing.render(found, screen()))
    golden("ls-paused-60.txt", listing.render(found, screen(width=60)))
    lines = listing.render(found, screen(terminal=False, ascii=True))
    assert "  paused    180/300  " in lines[1]


def test_ls_of_nothing_is_no_line(cast, screen):
    assert listing.render(make_listing(cast, ()), screen()) == []


def test_a_hostile_name_is_shown_as_text_and_keeps_the_columns(cast, screen):
    hostile = replace(cast.rows[1], experiment="\x1b[31m[bold]\u202e漢字")
    lines = listing.render(make_listing(cast, (hostile, cast.rows[4])), screen())
    assert "\\x1b[31m[bold]\\u202e漢字" in lines[1]
    assert not any("\x1b" in line or "\u202e" in line for line in lines)
    ends = [cells(line[: line.index("finished")]) for line in lines[1:]]
    assert ends[0] == ends[1]


def test_colour_never_moves_a_column(cast, screen):
    import re

    plain = listing.render(make_listing(cast), screen())
    coloured = listing.render(make_listing(cast), screen(color=True))
    assert coloured != plain
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == plain


def test_rank_at_100_columns(cast, screen, golden):
    golden("rank-100.txt", ranking.render(make_ranking(cast), screen()))


def test_rank_at_70_columns_drops_further_metrics_first(cast, screen, golden):
    lines = ranking.render(make_ranking(cast), screen(width=72))
    golden("rank-72.txt", lines)
    assert "eval/cloze/acc" not in "\n".join(lines)


def test_rank_in_a_pipe(cast, screen, golden):
    golden("rank-pipe.txt", ranking.render(make_ranking(cast), screen(terminal=False, ascii=True)))


def test_a_clear_first_is_named_as_best(cast, screen):
    rows = make_ranking(cast).rows
    better = replace(rows[0], value=1.700)
    lines = ranking.render(make_ranking(cast, rows=(better, *rows[1:]), num_tied=1), screen())
    assert lines[-1] == ("best  g2z8 exp07_zloss, ahead of the next by 0.141, beyond noise ±0.022")


def test_a_row_alone_is_the_only_one_unless_a_limit_cut_the_rest(cast, screen):
    one = make_ranking(cast, rows=make_ranking(cast).rows[:1], num_tied=1)
    assert ranking.render(one, screen())[-1] == "best  g2z8 exp07_zloss, the only one ranked"
    assert ranking.render(one, screen(), is_whole=False)[-1] == "best  g2z8 exp07_zloss"


def test_two_tied_runs_are_named_as_two(cast, screen):
    lines = ranking.render(make_ranking(cast, num_tied=2), screen())
    assert lines[-1] == "no winner  1 and 2 cannot be told apart by one seed each"


def test_runs_with_another_objective_stand_apart(cast, screen):
    made = make_ranking(cast, apart=(replace(cast.rows[2], objective=None),))
    lines = ranking.render(made, screen())
    assert "apart       c7t3 without an objective (another objective)" in lines


def test_without_noise_there_is_no_winner_and_a_hint(cast, screen):
    made = make_ranking(cast, noise=None, num_tied=0)
    lines = ranking.render(made, screen())
    assert lines[0] == "val/loss, lower is better, last value; noise not known"
    assert lines[-1].startswith("inconclusive  g2z8 exp07_zloss is ahead of the next by 0.002")
    assert ranking.next_commands(made) == [
        ("hint", "declare the noise you know, in conf/expdb: noise: {val/loss: SD}")
    ]


def test_a_delta_to_another_seed_says_which(cast):
    row = replace(cast.rows[1], delta=Delta(value=0.05, outcome=Outcome.WORSE, other_seed=0))
    assert delta_cell(row, 3, "val/loss") == ("+0.050", "worse (seed 0)", "red")
    row = replace(row, delta=Delta(value=0.05, outcome=None, at_step=150, other_seed=0))
    assert delta_cell(row, 3, "val/loss")[1] == "@150 (seed 0)"
