"""What stands in the place of the matrix where nothing is declared: how to declare something."""

from __future__ import annotations

from typing import Final

from expdb_tui.ink import Piece

EMPTY: Final[list[list[Piece]]] = [
    [],
    [("  No experiments are declared here.", "text+bold")],
    [],
    [
        ("  conf/exp/NAME.yaml", "accent"),
        ("          declares one; its seeds are those of", "dim"),
    ],
    [("  hydra.sweeper.params", "accent"), ("        in that file", "dim")],
    [("  expdb init --project", "accent"), ("        writes a first one", "dim")],
]
