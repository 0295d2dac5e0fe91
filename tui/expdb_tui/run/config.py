"""The tab of a run's config: what differs from its parent first, then every key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from expdb.index.reader import Reader
from expdb.query.config_changes import config_changes, decode
from expdb.query.diffs import rules_in
from expdb.query.history_results import KeyChange
from expdb.query.results import ABSENT
from expdb.text import cells, config_value, plain
from expdb_tui.ink import Piece, titled
from expdb_tui.run.facts import Facts
from expdb_tui.run.tab import Tab
from expdb_tui.widgets.lineview import Rows

WIDEST_KEY = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What was read of it."""

    changes: tuple[KeyChange, ...]
    against: str
    """What it is compared with, in words; empty where there is nothing."""
    values: tuple[tuple[str, Any], ...]


class ConfigTab(Tab):
    """Keys and values."""

    NAME, SHORT = "Config", "Conf"
    KEYS: ClassVar[Sequence[tuple[str, str]]] = (
        ("[ ]", "tab"), ("↑↓", "scroll"), ("d", "compare"), ("C", "control"),
    )  # fmt: skip
    TEACHES = ("This run has no config.", "expdb.start(cfg)")

    def forget(self) -> None:
        """Hold nothing of another run."""
        self._config: Config | None = None

    def has(self, facts: Facts) -> bool:
        """Tell whether the run has a config."""
        return facts.run.canonical not in ("", "{}")

    def open(self) -> None:
        """Show the keys."""
        self.screen.show_text().show(self._rows)
        if self._config is None:
            self._ask()

    def _ask(self) -> None:
        facts = self.facts

        def take(found: Config) -> None:
            self._config = found
            self.screen.show_text().show(self._rows)

        self.read(lambda reader: read_config(reader, facts), take)

    def _rows(self, width: int, height: int) -> Rows:
        if self._config is None:
            return []
        main = self.screen.main
        arrow = "->" if main.is_ascii else "→"
        return config_rows(self._config, width, main.marks.rule, arrow)


def read_config(reader: Reader, facts: Facts) -> Config:
    """Return the config of a run, and what it changed."""
    run = facts.run.id
    other = facts.parent or facts.baseline
    changes: tuple[KeyChange, ...] = ()
    if other is not None and other != run:
        ignore, seed_key = rules_in(facts.run.settings)
        changes = config_changes(reader, [(run, other)], ignore=ignore, seed_key=seed_key)[run]
    rows = reader.rows("SELECT key, kind, text FROM params WHERE run = ? ORDER BY key", [run])
    word = "parent" if facts.parent else "baseline"
    return Config(
        changes=changes,
        against=f"{word} {other[: reader.id_length]}" if other is not None else "",
        values=tuple((key, decode(kind, text)) for key, kind, text in rows),
    )


def config_rows(config: Config, width: int, rule: str, arrow: str) -> list[Sequence[Piece]]:
    """Return the changes, then all keys."""
    out: list[Sequence[Piece]] = []
    names = [key for key, _ in config.values]
    wide = min(WIDEST_KEY, max(map(cells, names), default=0))
    if config.against:
        count = len(config.changes)
        said = f"{count} key{'' if count == 1 else 's'}" if count else "nothing"
        title = [(f"Changed from the {config.against}", "text+bold"), (f"  {said}", "dim")]
        out.append(titled([(" ", ""), *title], width - 1, rule))
        for change in config.changes:
            out.append(
                [
                    (f"  {_padded(change.key, wide)}  ", "text"),
                    (f"{value_text(change.before)} {arrow} ", "dim"),
                    (value_text(change.after), "text+bold"),
                ]
            )
        out.append([])
    head = [(" ", ""), ("All keys", "text+bold"), (f"  {len(config.values)}", "dim")]
    out.append(titled(head, width - 1, rule))
    changed = {change.key for change in config.changes}
    for key, value in config.values:
        role = "text+bold" if key in changed else "text"
        out.append([(f"  {_padded(key, wide)}  ", "dim"), (value_text(value), role)])
    return out


def _padded(key: str, wide: int) -> str:
    text = plain(key)
    return text + " " * max(0, wide - cells(text))


def value_text(value: Any) -> str:
    """Return a value of a config, or the sign for none."""
    return "-" if value is ABSENT else config_value(value, None)
