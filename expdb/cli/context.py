"""What every verb needs: the store, a reader of it, the work tree and its HEAD.

Invariant: only the command line reads the environment. A reading verb says first when an op of this
work tree was cut off, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from expdb.cli.output import Output
from expdb.errors import Refused

if TYPE_CHECKING:
    from expdb.git.worktree import WorkTree
    from expdb.index.reader import Reader
    from expdb.model import RunAt
    from expdb.store.resolve import Resolved
    from expdb.store.store import Store
