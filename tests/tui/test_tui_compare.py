"""Screen 3: the verdict and its reasons, what differs, and the tables at every size."""

from __future__ import annotations

import pytest

from expdb.index.reader import open_reader
from expdb.query.results import Outcome
from expdb_tui.compare.layout import Look, halves, one_column, with_plot
from expdb_tui.compare.meant import free_places, meant, why_none
from expdb_tui.compare.measured import Measured
from expdb_tui.compare.reading import Asked, Compared, read_compared
from expdb_tui.compare.screen import CompareScreen
from expdb_tui.compare.tables import eval_rows
from expdb_tui.compare.verdict import verdict, who
from expdb_tui.ink import width_of
from expdb_tui.marks import ASCII, UNICODE
from expdb_tui.session import Session
from tests.tui.driving import drive, press, screen_of

pytestmark = pytest.mark.slow


def ids(session: Session, name: str) -> list[str]:
    with open_reader(session.store) as reader:
        sql = "SELECT id FROM runs WHERE experiment = ? ORDER BY seed"
        return [row[0] for row in reader.rows(sql, [name])]


def compared(session: Session, *names: str, is_over_seeds: bool | None = None) -> Compared:
    runs = tuple(ids(session, name)[0] for name in names)
    places = tuple(range(len(runs)))
    asked = Asked(runs=runs, places=places, is_over_seeds=is_over_seeds)
    with open_reader(session.store) as reader:
        return read_compared(reader, asked, cwd=session.directory, head=None)


def text(pieces) -> str:
    return "".join(part for part, _ in pieces)


def texts(rows) -> list[str]:
    return [text(row).rstrip() for row in rows]


def test_enough_seeds_are_compared_as_means_unless_asked_otherwise(lab: Session) -> None:
    means = compared(lab, "baseline", "exp01")
    assert text(who(means, UNICODE)) == "● baseline s0,1,2   ■ exp01 s0,1,2"
    said = text(verdict(means, UNICODE, 120))
    assert said.startswith("▼ WORSE  val/loss +0.170 [+0.1")
    assert said.endswith("beyond the noise: 3 seeds each, Welch 95 %")
    single = compared(lab, "baseline", "exp01", is_over_seeds=False)
    said = text(verdict(single, ASCII, 120))
    assert said.startswith("v WORSE  val/loss +0.168 [+0.146, +0.191]")
    assert said.endswith("beyond the noise: seed sd 0.008 declared, 1 seed each")
    assert text(verdict(single, UNICODE, 80)).endswith("beyond noise, sd 0.008")
    assert compared(lab, "baseline", "exp02_cosine").seeds is None


def test_what_cannot_be_judged_says_why(lab: Session) -> None:
    said = text(verdict(compared(lab, "baseline", "exp07_leak"), UNICODE, 120))
    assert "INCONCLUSIVE" in said
    assert "val/loss is NaN in exp07_leak" in said


def test_several_runs_have_a_column_and_a_verdict_each(lab: Session) -> None:
    shown = compared(lab, "baseline", "exp01", "exp02_cosine")
    said = text(verdict(shown, UNICODE, 120))
    assert said.startswith("val/loss   ■ ▼ WORSE +0.168   ◆ ≈ SAME -0.02")
    rows = texts(one_column(shown, 78, Look(marks=UNICODE))[0])
    head = next(row for row in rows if "● base" in row)
    assert head.split() == ["●", "base", "■", "exp01", "◆", "exp02…"]
    loss = next(row for row in rows if row.startswith(" val/loss"))
    assert loss.split()[1:] == ["1.868", "2.037", "▼", "1.847", "≈"]
    assert " optim.lr           ●◆ 0.003  ■ 0.01" in rows


@pytest.mark.parametrize("marks", [UNICODE, ASCII])
@pytest.mark.parametrize("names", [("baseline", "exp01"), ("baseline", "exp01", "exp02_cosine")])
def test_every_row_fits_every_width(lab: Session, marks, names) -> None:
    shown = compared(lab, *names)
    for width in (56, 78, 118):
        rows, starts = one_column(shown, width, Look(marks=marks, is_all=True))
        rows = with_plot(shown, list(rows), width, len(rows) + 14, Look(marks=marks))
        assert [text(row) for row in rows if width_of(row) > width] == []
        assert list(starts) == ["Config", "Code", "Metrics", "Evals", "Environment"]
        if marks is ASCII:
            assert all(text(row).isascii() for row in rows)
    left, right, _ = halves(shown, 61, 53, Look(marks=marks))
    assert max(map(width_of, left)) <= 61
    assert max(map(width_of, right)) <= 53


def test_the_code_shows_its_first_change(lab: Session) -> None:
    rows = texts(one_column(compared(lab, "baseline", "exp01"), 78, Look(marks=UNICODE))[0])
    at = next(at for at, row in enumerate(rows) if row.startswith("Code  1 file ─"))
    assert rows[at + 1].startswith(" train.py           +2 -1 ")
    assert rows[at + 2 : at + 6] == [
        " │  def main(cfg):", " │ -    clip = 1.0", " │ +    clip = cfg.clip", " │ +    warm = 30",
    ]  # fmt: skip


def test_evals_are_intervals_around_zero(lab: Session) -> None:
    rows = texts(eval_rows(compared(lab, "baseline", "exp01"), 60, UNICODE))
    assert [row.split()[0] for row in rows[:5]] == ["arith", "brackets", "cloze", "facts", "instr"]
    for row in rows[:5]:
        assert row.index("■") < row.index("│")
        assert row.endswith("▼")
    assert rows[5].split()[1] == "0"
    assert rows[5].index(" 0 ") + 1 == rows[0].index("│")


def test_within_the_noise_is_told_without_a_direction() -> None:
    def one(outcome: Outcome | None, half: float | None) -> Measured:
        return Measured(
            key="train/x", values=(1.0, 1.2), deltas=(None, 0.2), halves=(None, half),
            outcomes=(None, outcome), percent=None,
        )  # fmt: skip

    assert one(None, None).is_within(1) is None
    assert one(None, 0.3).is_within(1) is True
    assert one(None, 0.1).is_beyond
    assert one(Outcome.NO_DIFFERENCE, None).is_within(1) is True
    assert one(Outcome.BETTER, 0.3).is_within(1) is False
    same = Measured(
        key="a", values=(1.0, 1.0), deltas=(None, 0.0), halves=(None, None), outcomes=(None, None),
        percent=0.0,
    )  # fmt: skip
    assert same.is_equal


def test_which_runs_are_meant() -> None:
    assert meant("b", (), "x") == ("b", "x")
    assert meant("b", ("x",), "y") == ("b", "x")
    assert meant("b", ("x", "y"), None) == ("x", "y")
    assert meant("b", ("x", "b"), None) == ("b", "x")
    assert meant(None, ("x",), "y") == ("x",)
    assert len(meant("b", (), "b")) == 1
    assert "baseline itself" in why_none("b", (), "b")
    assert "makes it the baseline" in why_none(None, (), "x")
    assert free_places((0, 2, 0), has_base=True) == (0, 2, 1)
    assert free_places((1, 2), has_base=False) == (1, 2)


def test_the_keys_of_the_screen(lab: Session) -> None:
    async def story(app, pilot):
        app.opened = ids(lab, "exp01")[0]
        await press(app, pilot, "end", "up", "up", "up", "d")
        assert isinstance(app.screen, CompareScreen)
        lines = screen_of(app)
        assert "baseline s0,1,2   ■ exp01 s0,1,2" in lines[1]
        assert lines[2].startswith(" ▼ WORSE")
        await press(app, pilot, "o")
        assert "baseline s0   ■ exp01 s0" in screen_of(app)[1]
        assert app.screen.command.startswith("expdb compare ")
        assert not app.screen.command.endswith("--over seed")
        await press(app, pilot, "o", "tab", "tab", "tab")
        assert app.screen.query_one("#left").top > 0
        assert any(line.startswith(" Metrics  6, beyond noise first") for line in screen_of(app))
        await press(app, pilot, "enter")
        assert any("@@" in line for line in screen_of(app))
        await press(app, pilot, "escape")
        assert any(line.startswith(" Metrics") for line in screen_of(app))
        before = screen_of(app)
        await press(app, pilot, "a")
        await press(app, pilot, "home")
        assert any("seed" in line or "steps" in line for line in screen_of(app))
        await press(app, pilot, "a")
        assert len(before) == 24
        await press(app, pilot, "escape", "space", "d")
        assert isinstance(app.screen, CompareScreen)

    drive(lab, story)


def test_two_halves_with_the_curves_below_the_metrics(lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "end", "up", "up", "up", "3")
        lines = screen_of(app)
        assert all(line[63] == "│" for line in lines[3:-1])
        assert "Config  1 of 9 keys differs" in lines[3]
        assert any("train/loss log  band = 3 seeds" in line for line in lines)
        assert any("⠀" < char <= "⣿" for line in lines for char in line)
        await press(app, pilot, "tab", "tab")
        assert app.focused is app.screen.query_one("#right")

    drive(lab, story, size=(120, 36))


def test_nothing_to_compare_teaches_what_to_do(empty_session: Session, lab: Session) -> None:
    async def story(app, pilot):
        await press(app, pilot, "3", "a", "o", "enter", "tab", "right")
        assert "Nothing to compare with yet." in "\n".join(screen_of(app))
        await press(app, pilot, "escape")
        assert not isinstance(app.screen, CompareScreen)

    async def on_itself(app, pilot):
        await press(app, pilot, "end", "d")
        assert "This is the baseline itself." in "\n".join(screen_of(app))

    drive(empty_session, story)
    drive(lab, on_itself)
