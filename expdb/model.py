"""The nouns of expdb as frozen values; standard library only.

What a list of runs needs stands in `expdb/model_base.py`, the rest in `expdb/model_run.py`, that is
loaded when it is asked for here: to make such a class takes longer than to fill a thousand.

Invariant: values here hold what files say (after redaction) plus what is derived from them without
any further input. Times are UTC epoch milliseconds (`_ms`); durations are seconds (`_s`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from expdb.model_base import FORMAT as FORMAT
from expdb.model_base import NEEDS as NEEDS
from expdb.model_base import SEED_LIMIT as SEED_LIMIT
from expdb.model_base import Objective as Objective
from expdb.model_base import Ref as Ref
from expdb.model_base import RunAt as RunAt
from expdb.model_base import RunId as RunId
from expdb.model_base import RunState as RunState

if TYPE_CHECKING:
    from expdb.model_run import Attempt as Attempt
    from expdb.model_run import Checkpoint as Checkpoint
    from expdb.model_run import Eval as Eval
    from expdb.model_run import Event as Event
    from expdb.model_run import Op as Op
    from expdb.model_run import Pin as Pin
    from expdb.model_run import Run as Run
    from expdb.model_run import Series as Series

_OF_A_RUN = frozenset(["Attempt", "Checkpoint", "Eval", "Event", "Op", "Pin", "Run", "Series"])


def __getattr__(name: str) -> Any:
    if name not in _OF_A_RUN:
        raise AttributeError(f"module 'expdb.model' has no attribute {name!r}")
    return getattr(importlib.import_module("expdb.model_run"), name)
