"""`expdb show --digest`: what a config digest is about, and what it leaves out.

Invariant: every key of the config is in exactly one of counted, apart, ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from expdb.query.compare_results import Comparison
from expdb.report.rollback import change
from expdb.report.style import Style
from expdb.report.words import counted, label
from expdb.text import config_value

MAX_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestParts:
    """A digest taken apart; the command line fills it from the canonical config."""

    digest: str
    num_counted: int
    seed_key: str
    seed: Any
    has_seed: bool
    ignored: tuple[str, ...]
    stubbed: Mapping[str, str] = field(default_factory=dict)
    """Key -> the text that stands in its place."""
    secret: tuple[str, ...] = ()
    today: str = ""
    """The digest under today's rules."""


def render(parts: DigestParts, style: Style, *, against: Comparison | None = None) -> list[str]:
    """Return the parts of a digest, and what differs from the parent."""
    seed = config_value(parts.seed) if parts.has_seed else ""
    same = parts.today == parts.digest
    rules = "today's, the same as when it ran"
    lines = [
        ("digest", parts.digest),
        ("counted", counted(parts.num_counted, "key")),
        ("apart", f"{parts.seed_key} = {seed}" if parts.has_seed else "none"),
        ("ignored", _named(parts.ignored)),
        ("stubbed", _named([f"{key} = {text}" for key, text in parts.stubbed.items()])),
        ("secret", _named(parts.secret)),
        ("rules", rules if same else f"those of its run; under today's it is {parts.today[:15]}"),
    ]
    out = [f"{name:<9}{style.say(text)}" for name, text in lines]
    if against is not None:
        parent = against.runs[0]
        out += ["", f"against {label(parent, style)}, {parent.digest[:15]}"]
        differ = [diff for diff in against.config if diff.differs]
        out += [f"  {change(diff, style, gap=2)}" for diff in differ] or ["  nothing differs"]
    return out


def _named(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return f"{counted(len(names), 'key'):<7}  {' '.join(names[:MAX_NAMED])}{more}"
