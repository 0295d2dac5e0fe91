"""What the other side said to a post."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whether it was taken, and the words for people."""

    is_taken: bool
    said: str
    """Without any part of the address."""
    wait_s: float = 0.0
    """How long the other side wants to hear nothing; 0 where it did not say."""
