"""Git for training runs. Names are resolved on first use: `import expdb` loads nothing heavy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from expdb.api import open_store as open
    from expdb.errors import (
        Ambiguous,
        BadInput,
        Conflict,
        Corrupt,
        ExpdbError,
        NotFound,
        Refused,
        Unsupported,
    )
    from expdb.track.attach import attach
    from expdb.track.distill import compare_teacher
    from expdb.track.lm import lm_loss
    from expdb.track.loading import LengthBuckets, Loader
    from expdb.track.loop import Loop
    from expdb.track.start import start
    from expdb.track.state import State

_NAMES = {
    "start": "expdb.track.start:start",
    "attach": "expdb.track.attach:attach",
    "State": "expdb.track.state:State",
    "Loader": "expdb.track.loading:Loader",
    "LengthBuckets": "expdb.track.loading:LengthBuckets",
    "Loop": "expdb.track.loop:Loop",
    "compare_teacher": "expdb.track.distill:compare_teacher",
    "lm_loss": "expdb.track.lm:lm_loss",
    "open": "expdb.api:open_store",
    "ExpdbError": "expdb.errors:ExpdbError",
    "BadInput": "expdb.errors:BadInput",
    "NotFound": "expdb.errors:NotFound",
    "Ambiguous": "expdb.errors:Ambiguous",
    "Refused": "expdb.errors:Refused",
    "Conflict": "expdb.errors:Conflict",
    "Corrupt": "expdb.errors:Corrupt",
    "Unsupported": "expdb.errors:Unsupported",
}

__all__ = [
    "Ambiguous",
    "BadInput",
    "Conflict",
    "Corrupt",
    "ExpdbError",
    "LengthBuckets",
    "Loader",
    "Loop",
    "NotFound",
    "Refused",
    "State",
    "Unsupported",
    "attach",
    "compare_teacher",
    "lm_loss",
    "open",
    "start",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'expdb' has no attribute {name!r}")
    module, _, attribute = _NAMES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
