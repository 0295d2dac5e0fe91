"""What stands in the place of runs where there are none: the next command."""

from __future__ import annotations

from expdb_tui.ink import Piece

NONE_YET: tuple[tuple[str, str], ...] = (
    ("python train.py +exp=baseline", "trains the first one"),
    ("expdb import PATH", "takes runs of another tracker"),
    ("expdb init", "sets a store up"),
)


def empty_rows(num_all: int) -> list[list[Piece]]:
    """Return the rows for a list without a run, of a store that has `num_all`."""
    if num_all:
        return [
            [],
            [("  No run matches.", "text+bold")],
            [
                (f"  {num_all:,} without the filter; ", "dim"),
                ("esc", "accent"),
                (" clears it.", "dim"),
            ],
        ]
    width = max(len(command) for command, _ in NONE_YET) + 3
    return [
        [],
        [("  No runs yet.", "text+bold")],
        [],
        *([(f"  {command:<{width}}", "accent"), (what, "dim")] for command, what in NONE_YET),
        [],
        [("  This screen fills by itself when a run starts.", "dim")],
    ]
