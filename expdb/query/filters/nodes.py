"""The tree of a filter. Each test compares one name with values; nothing is resolved yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Op = Literal["=", "<", "<=", ">", ">=", "~", "nan", "missing"]
"""`=` with several values is `in`; `!=` is `not` around `=`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A field, a config key or a metric, as it was written."""

    text: str
    quoted: bool
    reading: str = ""
    """The reading behind a quoted name."""
    at: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What is compared with; a quoted one is text, whatever it looks like."""

    text: str
    quoted: bool
    at: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test of one name: true, false, or neither where the run cannot answer it."""

    __test__ = False  # pytest: not a class of tests

    name: Name
    op: Op
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a node; of neither true nor false it is the same."""

    node: Node


@dataclass(frozen=True, slots=True)
class All:
    """True where every node is."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True where one node is."""

    nodes: tuple[Node, ...]


Node = Test | Not | All | AnyOf
