"""The process of the command line: how it begins and how it ends.

Invariant: what is done and said is that of `cli.main.main`; nothing here but time. A command makes
few cycles and is soon over, so the collector is asked rarely, and what the process holds is left to
the system: to take apart 150 modules and a database takes a tenth of `ls`.
"""

from __future__ import annotations

import gc
import os
import threading
from typing import Final, NoReturn

RARELY: Final = 50_000
"""So many new objects may pass unlooked at; Python's own 700 makes 100 looks of one import."""


def run() -> NoReturn:
    """Run the command line, and end the process."""
    gc.set_threshold(RARELY, 20, 20)
    from expdb.cli.main import main

    code = main()
    if threading.active_count() > 1:
        raise SystemExit(code)  # somebody still works: let it end
    os._exit(code)
