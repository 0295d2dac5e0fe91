"""What `log()` takes as a value, and how values on a device reach the host without a sync.

Taken: int and float (numpy's too), bool as 1/0, arrays and tensors of one element, on any device and of any dtype.
Refused: None, text, Decimal, arrays of more than one element, ints beyond 2^53.
"""

from __future__ import annotations

import numbers
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

EXACT = 2**53
Write = Callable[[tuple[str, ...], tuple[float, ...], int, int], None]


class BadValue(Exception):
    """A value that is no number; the message says what it is."""


def to_float(value: Any) -> float:
    """Return the exact float64 of a host value.

    Raises:
        BadValue: it is no real number, or an int that float64 cannot hold.
    """
    if isinstance(value, (bool, float)):
        return float(value)
    if isinstance(value, int):
        if abs(value) > EXACT:
            raise BadValue(f"the int {value}, beyond 2^53")
        return float(value)
    if value is None or isinstance(value, (str, bytes)):
        raise BadValue("None" if value is None else f"the text {value!r}"[:60])
    count = getattr(value, "numel", None) or getattr(value, "size", None)
    count = count() if callable(count) else count
    if isinstance(count, int) and count != 1:
        raise BadValue(f"{type(value).__name__} of {count} elements")
    item = getattr(value, "item", None)
    if callable(item):
        return to_float(item())
    if isinstance(value, numbers.Real):
        return float(value)
    raise BadValue(f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins."))


def on_device(value: Any) -> bool:
    """Tell whether reading the value now would wait for an accelerator."""
    device = getattr(value, "device", None)
    return getattr(device, "type", "cpu") == "cuda"


class DeviceQueue:
    """Device scalars on their way to the host: copied at the call, written when the copy has arrived.

    Order of writes is the order of calls. Nothing here waits but `drain(wait=True)`.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._pending: deque[tuple[tuple[str, ...], Any, Any, int, int]] = deque()

    def put(self, values: Mapping[str, Any], step: int, time_ms: int) -> None:
        """Start the copy of one call's device scalars, all of one device; detached, in stream order."""
        import torch

        flat = [value.detach().reshape(()).to(torch.float64) for value in values.values()]
        stacked = torch.stack(flat)
        host = torch.empty(len(flat), dtype=torch.float64, pin_memory=True)
        host.copy_(stacked, non_blocking=True)
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(stacked.device))
        self._pending.append((tuple(values), host, event, step, time_ms))

    def drain(self, *, wait: bool = False) -> None:
        """Write what has arrived; with `wait` everything."""
        while self._pending:
            keys, host, event, step, time_ms = self._pending[0]
            if wait:
                event.synchronize()
            elif not event.query():
                return
            self._pending.popleft()
            self._write(keys, tuple(host.tolist()), step, time_ms)

    def __len__(self) -> int:
        return len(self._pending)
