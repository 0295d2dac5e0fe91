from __future__ import annotations

from dataclasses import replace

from expdb.query.compare_results import Comparison, MetricDiff, Verdict
from expdb.query.results import Outcome, Spread
from expdb.report import closing
from expdb.report.style import Style, style_of
from expdb.report.verdict import verdict_lines
from expdb.text import cells


def diff(key, left, right, outcome=None, **change):
    made = MetricDiff(
        key=key,
        values=(left, right),
        deltas=(None, right - left),
        deltas_pct=(None, (right / left - 1) * 100),
        better=(None, None),
        outcomes=(None, outcome),
        step=300,
    )
    return replace(made, **change)


def make(cast) -> Comparison:
    from expdb.query.compare_results import CodeDiff

    reason = "val/loss +0.180 (+9.7 %), beyond noise ±0.022"
    return Comparison(
        runs=(cast.run("k3f9x2m7qd"), cast.run("t1h6y3cz8r")),
        objective=cast.loss,
        step=300,
        config=(),
        code=CodeDiff(same_tree=True),
        environment=(),
        data=(),
        metrics=(
            diff("train/grad_norm", 0.8, 0.9),
            diff("train/loss", 1.620, 1.831),
            diff("train/tokens_per_s", 18420.0, 18310.0),
            diff("val/loss", 1.848, 2.028, Outcome.WORSE, is_objective=True),
        ),
        evals=(
            diff("eval/cloze/acc", 0.460, 0.430, Outcome.NO_DIFFERENCE, noise=(None, 0.05)),
            diff("eval/cloze/acc_stderr", 0.0249, 0.0248),
        ),
        num_events=({}, {"warn": 1}),
        verdicts=(Verdict(run="t1h6y3cz8r", outcome=Outcome.WORSE, reason=reason),),
        noise=cast.noise,
    )


def test_the_closing_table(cast, screen, golden):
    golden("closing-100.txt", closing.end_lines(cast.run("t1h6y3cz8r"), make(cast), screen()))


def test_a_narrow_closing_table_keeps_every_row(cast, screen):
    lines = closing.closing_lines(make(cast), screen(width=60))
    assert max(cells(line) for line in lines) <= 60
    assert len(lines) == len(closing.closing_lines(make(cast), screen()))


def test_other_seeds_are_said(cast, screen, golden):
    """Of one config: noise and the spread. Of two configs: that the seeds are not the same."""
    made = make(cast)
    base, run = made.runs
    spread = Spread(num_seeds=3, low=1.848, high=1.864, sd=0.008)
    reason = "val/loss +0.180 (+9.7 %): same config, other seed: this is noise"
    noise = Verdict(run=run.id, outcome=Outcome.NO_DIFFERENCE, reason=reason)
    siblings = replace(made, runs=(base, replace(run, seed=1)), spread=spread, verdicts=(noise,))
    golden("verdict-siblings-100.txt", verdict_lines(siblings, screen()))
    assert closing.closing_lines(siblings, screen())[-1] == f"no difference  {reason}"
    other = replace(made, runs=(base, replace(run, seed=3)))
    assert verdict_lines(other, screen())[-1].strip() == "not the same seed: 3 against 0"
    assert closing.closing_lines(other, screen())[-1] == (
        "not the same seed: 3 against 0; no baseline with seed 3 has finished"
    )


def test_a_run_without_a_parent_stands_alone(cast, screen, golden):
    series = [
        cast.series("val/loss", 1.848),
        cast.series("train/loss", 1.620),
        cast.series("eval/cloze/acc", 0.460),
        cast.series("eval/cloze/acc_stderr", 0.0249),
        cast.series("train/tokens_per_s", 18420.0),
    ]
    run = cast.run("k3f9x2m7qd", series={s.key: s for s in series}, events=())
    golden("closing-alone.txt", closing.end_lines(run, None, screen()))


def test_what_to_do_after_a_run(cast, screen):
    assert closing.next_commands(make(cast), screen()) == [
        ("compare", "expdb compare k3f9 t1h6"),
        ("go back", "expdb rollback"),
    ]


class _Terminal:
    encoding = "utf-8"

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def test_a_stream_decides_its_style(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    terminal = style_of(_Terminal(True), {"TERM": "xterm"}, 7)
    assert terminal == Style(color=True, ascii=False, width=120, terminal=True, now_ms=7)
    pipe = style_of(_Terminal(False), {}, 7)
    assert pipe == Style(color=False, ascii=True, width=100, terminal=False, now_ms=7)
    assert style_of(_Terminal(True), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, 7).color is False
    assert style_of(_Terminal(False), {"FORCE_COLOR": "1"}, 7).color is True
    assert style_of(_Terminal(True), {"TERM": "dumb"}, 7).ascii is True
