"""One GPU for each of several processes at once, where there are several.

Invariant: a process sees no device that this one does not see.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from expdb.store.programs import ask

VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
DEVICE: Final = re.compile(r"^(GPU|\s+MIG) .*\(UUID: ([\w/-]+)\)\s*$", re.M)


class Gpus:
    """Devices that are given to processes, each time one that has the fewest."""

    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = devices
        self._taken = Counter(dict.fromkeys(devices, 0))

    @contextmanager
    def one(self) -> Iterator[dict[str, str]]:
        """Hold a device; yield the variable that shows it alone, none without several devices."""
        if len(self._devices) < 2:
            yield {}
            return
        device = min(self._devices, key=lambda one: self._taken[one])
        self._taken[device] += 1
        try:
            yield {VARIABLE: device}
        finally:
            self._taken[device] -= 1


def devices_for(workers: int) -> list[str]:
    """Return the devices to share out among so many processes; none for one, which may use all."""
    if workers < 2:
        return []
    given = os.environ.get(VARIABLE)
    if given is None:
        return _listed()
    names = [name.strip() for name in given.split(",")]
    # As the driver reads it, what stands behind a wrong name does not count; `-1` is one.
    wrong = next((at for at, name in enumerate(names) if name in ("", "-1")), len(names))
    return names[:wrong]


def _listed() -> list[str]:
    """Return the ids of what the driver lists; of a GPU that is divided, those of its parts."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    answer = ask(program, "--list-gpus")
    if answer is None or answer.code:
        return []
    found: list[tuple[str, str]] = DEVICE.findall(answer.out)
    out = []
    for at, (kind, name) in enumerate(found):
        following = found[at + 1][0].strip() if at + 1 < len(found) else ""
        if kind != "GPU" or following != "MIG":
            out.append(name)
    return out
