"""The kernel's log of GPU errors: Xid numbers in plain words, and why it could not be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from expdb.actions.kernel_log import kernel_log_checks, xid_checks, xids

FELL = (
    "[ 8912.402113] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>,"
    " GPU has fallen off the bus.\n"
)
LOG = f"""\
[    0.000000] Linux version 6.1.0
[    4.100000] nvidia: loading out-of-tree module taints kernel.
[  101.000000] NVRM: Xid (PCI:0000:5E:00): 31, pid=4711, name=python, Ch 00000008, MMU Fault
{FELL}[ 8912.402119] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
[ 8913.000000] NVRM: Xid (0000:3b:00): 79, GPU has fallen off the bus.
[ 9000.000000] NVRM: Xid (PCI:0000:3b:00): 999, something new
"""


def test_xid_79_is_a_gpu_that_fell_off_the_bus() -> None:
    [check] = xid_checks(FELL)
    assert (check.mark, check.what) == (
        "problem", "Xid 79: GPU fell off the bus (GPU 0000:3b:00)",
    )  # fmt: skip
    assert check.advice[0].startswith("reboot")


def test_each_number_of_each_gpu_is_said_once() -> None:
    assert xids(LOG) == {(31, "0000:5e:00"): 1, (79, "0000:3b:00"): 2, (999, "0000:3b:00"): 1}
    found = xid_checks(LOG)
    assert [check.mark for check in found] == ["note", "problem", "note"]
    assert "(GPU 0000:3b:00, 2 times)" in found[1].what
    assert "NVIDIA's list" in found[2].what
    assert xid_checks("[    0.000000] Linux\n")[0].mark == "ok"


@pytest.mark.parametrize(
    ("dmesg", "mark", "what"),
    [
        (f"cat <<'END'\n{FELL}END", "problem", "GPU fell off the bus"),
        ("echo quiet", "ok", "no Xid"),
        ("echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1", "none",
         "dmesg fails: read kernel buffer failed: Operation not permitted"),
        (None, "none", "dmesg is not installed"),
    ],
)  # fmt: skip
def test_the_log_is_read_or_it_is_said_why_not(
    tmp_path: Path, dmesg: str | None, mark: str, what: str
) -> None:
    assert kernel_log_checks(path=str(tmp_path)) == []  # no driver, no GPU to look for
    for name, script in (("nvidia-smi", "exit 0"), ("dmesg", dmesg)):
        if script is not None:
            (tmp_path / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
            (tmp_path / name).chmod(0o755)
    [check] = kernel_log_checks(path=str(tmp_path))
    assert check.mark == mark
    assert what in check.what
    assert bool(check.advice) == (mark != "ok")
