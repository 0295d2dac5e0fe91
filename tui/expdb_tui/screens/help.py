"""`?`: the keys of a screen at the left, what its signs mean at the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from expdb.query.results import Outcome
from expdb.signs import STATE_GLYPHS
from expdb_tui.ink import Piece, fit
from expdb_tui.marks import OUTCOME_ROLES
from expdb_tui.runs.cells import ROLES
from expdb_tui.widgets.lineview import LineView

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

Keys = Sequence[tuple[str, str]]
EVERYWHERE: Keys = (
    ("1-6", "screens"), ("/", "filter"), (":", "any command"), ("!", "the command for this view"),
    ("b", "make it the baseline"), ("t", "tag"), ("n", "note"), ("G", "go back to it"),
    ("Y", "copy the id"), ("d", "compare"), ("esc", "back"), ("q", "quit"),
)  # fmt: skip
STATES = (
    "running",
    "finished",
    "failed",
    "crashed",
    "lost",
    "preempted",
    "paused",
    "stale",
    "missing",
)


class HelpScreen(ModalScreen[None]):
    """One page of help."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "leave", show=False)
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen LineView { width: 76; height: 24; max-width: 100%; max-height: 100%; }
    """

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        yield LineView(id="help")

    def on_mount(self) -> None:
        """Fill the page."""
        self.query_one(LineView).show(self._rows)

    def _rows(self, width: int, height: int) -> list[list[Piece]]:
        app = cast("Shared", self.app)
        left: list[list[Piece]] = [[("This screen", "text+bold")]]
        left += [[(f"{key:<8}", "accent"), (name, "text")] for key, name in self._keys]
        left += [[], [("Everywhere", "text+bold")]]
        everywhere = app.keys.shown("everywhere", EVERYWHERE)
        left += [[(f"{key:<8}", "accent"), (name, "text")] for key, name in everywhere]
        right: list[list[Piece]] = [[("States", "text+bold")]]
        for state in STATES:
            look = STATE_GLYPHS[state]
            sign = look.ascii if app.is_ascii else look.glyph
            right.append([(f"{sign}  ", ROLES[look.colour]), (state, "text")])
        right += [[], [("Against the baseline", "text+bold")]]
        words = {
            Outcome.BETTER: "better, beyond the noise",
            Outcome.WORSE: "worse, beyond the noise",
            Outcome.NO_DIFFERENCE: "inside the noise",
        }
        for outcome, word in words.items():
            right.append(
                [(f"{app.marks.outcomes[outcome]}  ", OUTCOME_ROLES[outcome]), (word, "text")]
            )
        right += [
            [(f"{app.marks.live}  ", "faint"), ("taken at the same step", "text")],
            [(f"{app.marks.series[0]}  ", "series0"), ("the baseline", "text")],
            [("!  ", "warn"), ("warnings; ", "text"), ("critical", "fail")],
        ]
        half = (width - 4) // 2
        rows: list[list[Piece]] = [[]]
        for at in range(max(len(left), len(right))):
            one = left[at] if at < len(left) else []
            other = right[at] if at < len(right) else []
            rows.append([("  ", ""), *fit(one, half), *fit(other, half)])
        return rows[:height]

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss()
