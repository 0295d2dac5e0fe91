"""`?`: the keys of a screen at the left, what its signs mean at the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from expdb.query.results import Outcome
from expdb.signs import STATE_GLYPHS
from expdb_tui.ink import Piece, fit, width_of
from expdb_tui.marks import OUTCOME_ROLES
from expdb_tui.runs.cells import ROLES
from expdb_tui.widgets.lineview import LineView

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

Keys = Sequence[tuple[str, str]]
EVERYWHERE: Keys = (
    ("1-6", "screens"), ("/", "filter"), (":", "any command"), ("!", "say its command"),
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


WORDS = {
    Outcome.BETTER: "better",
    Outcome.WORSE: "worse",
    Outcome.NO_DIFFERENCE: "inside the noise",
}


class HelpScreen(ModalScreen[None]):
    """One page of help."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "leave", show=False)
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen LineView { width: 84; height: 24; max-width: 100%; max-height: 100%; }
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
        blocks = [
            _keys("This screen", self._keys),
            _keys("Everywhere", app.keys.shown("everywhere", EVERYWHERE)),
            _signs(app),
        ]
        wide = [max(map(width_of, block)) for block in blocks]
        gap = max(1, min(5, (width - 4 - sum(wide)) // 2))
        rows: list[list[Piece]] = [[]]
        for at in range(max(map(len, blocks))):
            row: list[Piece] = []
            for block, cells in zip(blocks, wide, strict=True):
                air = (" " * gap if row else "  ", "")
                row += [air, *fit(block[at] if at < len(block) else [], cells)]
            rows.append(row)
        return rows[:height]

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss()


def _keys(title: str, keys: Keys) -> list[list[Piece]]:
    wide = max(4, *(len(key) + 2 for key, _ in keys))
    return [
        [(title, "text+bold")],
        *([(f"{key:<{wide}}", "accent"), (name, "text")] for key, name in keys),
    ]


def _signs(app: Shared) -> list[list[Piece]]:
    out: list[list[Piece]] = [[("States", "text+bold")]]
    for state in STATES:
        look = STATE_GLYPHS[state]
        sign = look.ascii if app.is_ascii else look.glyph
        out.append([(f"{sign}  ", ROLES[look.colour]), (state, "text")])
    out += [[], [("To the baseline", "text+bold")]]
    for outcome, word in WORDS.items():
        sign = app.marks.outcomes[outcome]
        out.append([(f"{sign}  ", OUTCOME_ROLES[outcome]), (word, "text")])
    return [
        *out,
        [(f"{app.marks.live}  ", "faint"), ("at the same step", "text")],
        [(f"{app.marks.series[0]}  ", "series0"), ("the baseline", "text")],
        [("!  ", "warn"), ("warnings; ", "text"), ("critical", "fail")],
    ]
