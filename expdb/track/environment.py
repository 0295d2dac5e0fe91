"""The environment of an attempt: names and versions that decide numbers; no machine name, no
secret.
"""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from expdb.store.layout import StoreLayout
from expdb.store.packages import keep_packages
from expdb.track import machine

PACKAGES = ("numpy", "torch", "hydra-core", "omegaconf", "expdb-ml")


def describe(store: StoreLayout, world_size: int = 1) -> dict[str, str]:
    """Return name -> text; torch is asked only when the process has loaded it.

    The packages that are installed are kept in the store, and stand here by their digest.
    """
    out = {"python": platform.python_version(), "platform": platform.machine()}
    if world_size > 1:
        out["world_size"] = str(world_size)
    for name in PACKAGES:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    more = {
        "cpu": machine.cpu(),
        "driver": machine.driver(),
        "packages": keep_packages(store, machine.installed()),
    }
    out.update((name, text) for name, text in more.items() if text)
    torch = sys.modules.get("torch")
    if torch is None:
        return out
    out["torch"] = str(torch.__version__)
    out["torch.num_threads"] = str(torch.get_num_threads())
    if torch.cuda.is_available():
        out["cuda"] = str(torch.version.cuda)
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        out["gpu"] = ", ".join(sorted(names))
    return out
