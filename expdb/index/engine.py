"""DuckDB's engine alone: what opens a generation, asks it and names its errors.

`import duckdb` takes 60 to 90 ms of CPU, most of it for its relations, which are written in Python.
The engine is the module `_duckdb` below it: the same connections, the same classes of errors. That
name is not promised, so where it is not there, or lacks something, the whole package stands in.

Invariant: what is Arrow's or a relation (`register`, `sql`) is asked of a connection only behind
`whole()`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

NEEDED: Final = (
    "DuckDBPyConnection",
    "Error",
    "FatalException",
    "IOException",
    "InternalException",
    "InvalidInputException",
    "__version__",
    "connect",
)


def _engine() -> Any:
    try:
        found = importlib.import_module("_duckdb")
    except ImportError:
        return importlib.import_module("duckdb")
    is_whole = all(hasattr(found, name) for name in NEEDED)
    return found if is_whole else importlib.import_module("duckdb")


if TYPE_CHECKING:
    import duckdb as engine
else:
    engine = _engine()

Connection = engine.DuckDBPyConnection
connect = engine.connect
Error = engine.Error
FatalException = engine.FatalException
InternalException = engine.InternalException
InvalidInputException = engine.InvalidInputException
IOException = engine.IOException
VERSION: Final[str] = engine.__version__


def whole() -> None:
    """Load the rest of the package, which gives connections what they lack."""
    importlib.import_module("duckdb")
