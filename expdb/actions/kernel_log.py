"""What the NVIDIA driver wrote to the kernel's log: Xid numbers, each in plain words.

    [ 8912.4] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen ...

Invariant: of a line only its numbers are shown, as other programs can write to that log too.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from typing import Final, NamedTuple

from expdb.actions.doctor_machine import GPU_COMMAND, GPU_TIMEOUT_S, Check
from expdb.store.programs import ask
from expdb.text import plain

NAME: Final = "kernel log"
LINE: Final = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)]{0,8}\): (\d{1,4})\b"
)
PROGRAM: Final = "run it again with CUDA_LAUNCH_BLOCKING=1: the fault is in a program, seldom a GPU"
REPLACE: Final = "take the GPU out of use; reset it, and have it replaced if that comes again"
REBOOT: Final = "reboot; look at power, temperature and seat of the GPU if that comes again"


class Meaning(NamedTuple):
    """What an Xid says; `advice` is what to do, empty where nothing is."""

    words: str
    advice: str = ""
    is_hardware: bool = True
    """False where the program that ran is the usual cause."""


MEANINGS: Final = {
    13: Meaning("exception of the graphics engine", PROGRAM, False),
    31: Meaning("a program read or wrote memory that is not its own", PROGRAM, False),
    43: Meaning("a program was stopped by the GPU", PROGRAM, False),
    45: Meaning("a program was cleaned up after another error or a kill", "", False),
    48: Meaning("memory error that could not be corrected", REPLACE),
    61: Meaning("the GPU's own controller halted", REBOOT),
    62: Meaning("the GPU's own controller halted", REBOOT),
    63: Meaning("a row of memory was replaced by a spare one", "reset the GPU when it is idle"),
    64: Meaning("a row of memory could not be replaced", REPLACE),
    74: Meaning("error of NVLink", "look at nvidia-smi nvlink -e; reset the GPUs it joins"),
    79: Meaning("GPU fell off the bus", REBOOT),
    92: Meaning("many memory errors that were corrected", "look at nvidia-smi -q -d ECC"),
    94: Meaning("memory error, one program lost", "restart the program; reset the GPU when idle"),
    95: Meaning("memory error, any program may be wrong", REPLACE),
    119: Meaning("the GPU's system processor gives no answer", REBOOT),
    120: Meaning("error of the GPU's system processor", REBOOT),
}
UNKNOWN: Final = Meaning("see NVIDIA's list of Xid errors")


def xids(log: str) -> Counter[tuple[int, str]]:
    """Return how often each (Xid, PCI address) is in a kernel log, in the order of their first."""
    return Counter((int(found[2]), found[1].lower()) for found in LINE.finditer(log))


def xid_checks(log: str) -> list[Check]:
    """Return a line of `doctor` for each Xid of each GPU, or one that there is none."""
    found = xids(log)
    if not found:
        return [Check(name=NAME, mark="ok", what="no Xid of the NVIDIA driver")]
    return [_check(number, gpu, count) for (number, gpu), count in found.items()]


def _check(number: int, gpu: str, count: int) -> Check:
    meaning = MEANINGS.get(number, UNKNOWN)
    times = f", {count:,} times" if count > 1 else ""
    return Check(
        name=NAME,
        mark="problem" if meaning.is_hardware and number in MEANINGS else "note",
        what=f"Xid {number}: {meaning.words} (GPU {gpu}{times})",
        advice=(meaning.advice,) if meaning.advice else (),
    )


def kernel_log_checks(*, path: str | None = None) -> list[Check]:
    """Return what the kernel's log says of NVIDIA GPUs; nothing where their driver is not here."""
    if shutil.which(GPU_COMMAND, path=path) is None:
        return []
    program = shutil.which("dmesg", path=path)
    answer = None if program is None else ask(program, timeout_s=GPU_TIMEOUT_S)
    if answer is not None and answer.code == 0:
        return xid_checks(answer.out)
    why = "dmesg is not installed" if program is None else "dmesg gives no answer"
    if answer is not None:
        said = plain(answer.err.strip().split("\n")[0][:200]).removeprefix("dmesg: ")
        why = f"dmesg fails: {said}" if said else "dmesg fails"
    what = f"not read for errors of the GPU: {why}"
    return [Check(name=NAME, mark="none", what=what, advice=("sudo dmesg | grep -i xid",))]
