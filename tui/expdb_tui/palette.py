"""The colours of the app: one palette for each ground and each depth of colour of a terminal.

Invariant: widgets name a role (`dim`, `better`), never a colour; a series keeps its place in
`series`, of which the first is the baseline's ink. With 256 colours the values are those of the
terminal's own table, as a mapping of the true colours makes different greys one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

Depth = Literal["true", "256", "16"]
Ground = Literal["dark", "light"]


@dataclass(frozen=True, kw_only=True)
class Palette:
    """The colours of one ground, as `#rrggbb`, or empty for the terminal's own."""

    ground: Ground
    depth: Depth
    bg: str
    surface: str
    sel: str
    rule: str
    rule2: str
    text: str
    dim: str
    faint: str
    accent: str
    better: str
    worse: str
    fail: str
    warn: str
    series: tuple[str, ...]
    """Lines and marks: the baseline first."""
    series_dim: tuple[str, ...]
    """Envelopes and bands, in the same order."""
    heat: tuple[str, ...]
    """Low to high; empty where a letter has to do."""

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """Role -> colour, for text."""
        names = ("rule", "rule2", "text", "dim", "faint", "accent", "better", "worse", "fail")
        named = {name: getattr(self, name) for name in (*names, "warn", "bg", "surface", "sel")}
        lines = {f"series{at}": colour for at, colour in enumerate(self.series)}
        tints = {f"tint{at}": colour for at, colour in enumerate(self.series_dim)}
        return {**named, **lines, **tints}


HEAT_DARK: Final = ("#16243f", "#1f3f63", "#2f5f7f", "#4b8093", "#7aa09a", "#b0bd95", "#e8d98a")
HEAT_LIGHT: Final = ("#eef0e4", "#cfdcc8", "#a5c3b6", "#74a3a8", "#4a7f97", "#2c5a80", "#17375e")

DARK: Final = Palette(
    ground="dark", depth="true",
    bg="#12161d", surface="#1a202a", sel="#263446", rule="#2c3542", rule2="#465162",
    text="#d0d7e1", dim="#8794a5", faint="#5f6b7b", accent="#6cb6ff",
    better="#4cc2a0", worse="#f0a04b", fail="#f2777f", warn="#dcb44e",
    series=("#d5dce6", "#5b8cff", "#feb935", "#b9669f", "#64bc9b", "#c39eed", "#ea6f0c"),
    series_dim=("#454e5b", "#2a4070", "#66512a", "#54334b", "#2d5046", "#524766", "#5f381a"),
    heat=HEAT_DARK,
)  # fmt: skip
LIGHT: Final = Palette(
    ground="light", depth="true",
    bg="#fbfaf7", surface="#f0eee8", sel="#d9e6f4", rule="#dedbd3", rule2="#b9b5ab",
    text="#24292f", dim="#5f6872", faint="#8b929a", accent="#0a62b5",
    better="#00755a", worse="#b35900", fail="#b8323f", warn="#8a6a00",
    series=("#24292f", "#3f7df5", "#8e8a10", "#d04f9f", "#0d8359", "#3d36ae", "#8a4600"),
    series_dim=("#bfc1c3", "#bed2fb", "#d7d6ae", "#f0c4de", "#aed3c5", "#bdbae0", "#d6c1aa"),
    heat=HEAT_LIGHT,
)  # fmt: skip
DARK_256: Final = Palette(
    ground="dark", depth="256",
    bg="#121212", surface="#262626", sel="#3a3a3a", rule="#444444", rule2="#626262",
    text="#d0d0d0", dim="#949494", faint="#6c6c6c", accent="#5fafff",
    better="#5fd7af", worse="#ffaf5f", fail="#ff8787", warn="#d7af5f",
    series=("#d0d0d0", "#5f87ff", "#ffaf00", "#af5f87", "#5faf87", "#d7afff", "#d75f00"),
    series_dim=("#4e4e4e",) * 7,
    heat=("#1c1c1c", "#00005f", "#005f87", "#5f8787", "#87af87", "#afaf87", "#ffd787"),
)  # fmt: skip
LIGHT_256: Final = Palette(
    ground="light", depth="256",
    bg="#ffffff", surface="#eeeeee", sel="#dadada", rule="#dadada", rule2="#b2b2b2",
    text="#262626", dim="#626262", faint="#8a8a8a", accent="#005faf",
    better="#00875f", worse="#af5f00", fail="#af0000", warn="#875f00",
    series=("#262626", "#5f87ff", "#878700", "#d75faf", "#00875f", "#0000af", "#875f00"),
    series_dim=("#b2b2b2",) * 7,
    heat=("#eeeeee", "#d7d7af", "#afd7af", "#87afaf", "#5f87af", "#005f87", "#00005f"),
)  # fmt: skip
PLAIN: Final = Palette(
    ground="dark", depth="16",
    bg="", surface="", sel="", rule="", rule2="", text="", dim="", faint="", accent="",
    better="", worse="", fail="", warn="", series=("",) * 7, series_dim=("",) * 7, heat=(),
)  # fmt: skip
"""The terminal's own colours: the cursor is reversed, what is bold stays bold."""

ALL: Final[Mapping[tuple[Ground, Depth], Palette]] = {
    ("dark", "true"): DARK,
    ("light", "true"): LIGHT,
    ("dark", "256"): DARK_256,
    ("light", "256"): LIGHT_256,
    ("dark", "16"): PLAIN,
    ("light", "16"): PLAIN,
}


def depth_of(env: Mapping[str, str]) -> Depth:
    """Return how many colours a terminal has, by its own words."""
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "true"
    term = env.get("TERM", "")
    if "direct" in term:
        return "true"
    if "256" in term:
        return "256"
    return "16" if term in ("linux", "screen", "xterm", "ansi", "vt100", "vt220") else "true"
