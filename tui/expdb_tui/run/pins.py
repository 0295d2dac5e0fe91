"""The tab of pins: what a run is fixed to."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from expdb.text import cells, date, plain, size
from expdb_tui.ink import Piece, titled
from expdb_tui.run.facts import Facts
from expdb_tui.run.texts import TextTab, wrapped
from expdb_tui.widgets.lineview import Rows


class PinsTab(TextTab):
    """What the run is fixed to: code, data, environment, command."""

    NAME, SHORT = "Pins", "Pins"
    TEACHES = ("Nothing was pinned.", "expdb.start(cfg)")

    def refresh(self) -> None:
        """Show the facts: nothing more is read."""
        self.shown()

    def rows(self, width: int, height: int) -> Rows:
        """Return label and value."""
        return pin_rows(self.facts, width, self.screen.main.marks.rule)


def pin_rows(facts: Facts, width: int, rule: str) -> list[Sequence[Piece]]:
    """Return what the latest attempt is fixed to, and the attempts before it in one row each."""
    run, pin = facts.run, facts.run.pin
    code = [
        ("commit", pin.commit or "none"),
        ("branch", pin.branch or ""),
        ("tree", pin.tree or ""),
        ("snapshot", f"{pin.snapshot} (edits {pin.num_edits})" if pin.snapshot else ""),
        ("remote", pin.remote or ""),
        ("used files", f"{len(pin.used):,}" if pin.used else ""),
        ("exact", "yes" if pin.reproducible else "no: " + "; ".join(pin.reasons)),
        ("left out", ", ".join(pin.skipped)),
    ]
    what = [
        ("id", run.id),
        ("path", run.path),
        ("created", date(run.created_at_ms)),
        ("config", run.digest),
        ("command", shlex.join(run.command)),
        ("bytes", size(run.bytes)),
        ("labels", ", ".join(run.labels)),
        *(("note", note) for note in run.notes),
        *(("damaged", problem) for problem in run.problems),
    ]
    attempt = run.attempt
    data = [
        (name, ", ".join(f"{key} {value}" for key, value in about.items()))
        for name, about in (attempt.data if attempt is not None else {}).items()
    ]
    environment = sorted((attempt.environment if attempt is not None else {}).items())
    attempts = [
        (str(one.number), f"from step {one.resumed_from or 0}  {(one.pin.pinned or '')[:7]}")
        for one in run.attempts
    ]
    out: list[Sequence[Piece]] = []
    sections = [("Run", what), ("Code", code), ("Data", data), ("Environment", environment)]
    if len(attempts) > 1:
        sections.append(("Attempts", attempts))
    for name, pairs in sections:
        shown = [(label, value) for label, value in pairs if value]
        if not shown:
            continue
        out.append(titled([(" ", ""), (name, "text+bold")], width - 1, rule))
        wide = max(12, *(cells(plain(label)) for label, _ in shown))
        for label, value in shown:
            text = plain(label)
            first, *rest = wrapped(plain(value), width - wide - 6)
            out.append([(f"  {text}{' ' * (wide - cells(text))}  ", "dim"), (first, "text")])
            out += [[(" " * (wide + 4), ""), (part, "text")] for part in rest]
        out.append([])
    return out
