"""Where expdb's Hydra groups are: beside this file in a wheel, in `conf/` of a checkout.

Standard library only, since Hydra imports it at every start through the search-path plugin.
"""

from __future__ import annotations

from pathlib import Path


def conf_dir() -> Path:
    """Return the folder that holds the groups `expdb/` and `hydra/`."""
    here = Path(__file__).resolve().parent
    if (here / "expdb").is_dir():
        return here
    return here.parent.parent / "conf"
