"""What `log()` takes as a value, and how values on a device reach the host without a sync.

Taken: int and float (numpy's too), bool as 1/0, arrays and tensors of one element, on any device
and of any dtype. Refused: None, text, Decimal, arrays of more than one element, ints beyond 2^53.
"""

from __future__ import annotations

import numbers
import operator
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from expdb.errors import BadInput
from expdb.store.new_run import require_seed

EXACT = 2**53
LARGEST_STEP = 2**63 - 1
Write = Callable[[tuple[str, ...], tuple[float, ...], int, int], object]


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
        try:
            host = item()
        except (
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:  # a tensor without data, for instance
            raise BadValue(f"{type(value).__name__} without a value") from error
        return to_float(host)
    if isinstance(value, numbers.Real):
        return float(value)
    raise BadValue(f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins."))


def whole_step(step: Any) -> int:
    """Return a step as a whole number that a point can hold.

    Raises:
        BadInput: it is none.
    """
    try:
        found = int(step) if isinstance(step, float) and step.is_integer() else operator.index(step)
    except TypeError:
        raise BadInput(f"a step is {step!r}, not a whole number"[:200]) from None
    if not -LARGEST_STEP <= found <= LARGEST_STEP:
        raise BadInput(f"the step {found} does not fit into 64 bits")
    return found


def whole_seed(seed: Any) -> int:
    """Return a seed as a whole number that a store holds.

    Raises:
        BadInput: it is none.
    """
    try:
        found = operator.index(seed)
    except TypeError:
        raise BadInput(f"the seed is {seed!r}, not a whole number"[:200]) from None
    if isinstance(seed, bool):
        raise BadInput(f"the seed is {seed}, not a whole number")
    require_seed(found)
    return found


def sorted_out(
    metrics: Mapping[Any, Any], step: int
) -> tuple[dict[str, float], dict[str, Any], list[str]]:
    """Return the host values, the device values, and what is refused in words, of one call."""
    host: dict[str, float] = {}
    device: dict[str, Any] = {}
    refused: list[str] = []
    for key, value in metrics.items():
        kind = type(value)
        if not isinstance(key, str) or not key:
            refused.append(f"a metric name is {'empty' if key == '' else repr(key)[:60]}")
        elif kind is float:  # most are, and nothing has to be asked of them
            host[str(key)] = value
        elif on_device(value) and value.numel() == 1:
            device[str(key)] = value
        else:
            try:
                host[str(key)] = to_float(value)
            except BadValue as error:
                refused.append(f"{key} at step {step} is {error}, not a number")
    return host, device, refused


def on_device(value: Any) -> bool:
    """Tell whether reading the value now would wait for an accelerator."""
    device = getattr(value, "device", None)
    return getattr(device, "type", "cpu") == "cuda"


def on_host(value: Any) -> Any:
    """Return a device scalar's value, and wait for it; anything else as it is."""
    return value.item() if on_device(value) and value.numel() == 1 else value


class DeviceQueue:
    """Numbers on their way from a device to the host: copied at the call, handed on when the copy
    has arrived.

    They are handed on in the order of the calls. Nothing here waits but `drain(wait=True)`.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self.pending: deque[tuple[Callable[[list[float]], None], Any, Any]] = deque()
        """What `drain` has to look at; empty where every value is the host's."""

    def put(self, values: Mapping[str, Any], step: int, time_ms: int) -> None:
        """Start the copies of one call's device scalars: one a device, in stream order."""
        import torch

        devices: dict[Any, dict[str, Any]] = {}
        for key, value in values.items():
            devices.setdefault(value.device, {})[key] = value
        for own in devices.values():
            flat = [value.detach().reshape(()).to(torch.float64) for value in own.values()]
            keys = tuple(own)

            def then(found: list[float], keys: tuple[str, ...] = keys) -> None:
                self._write(keys, tuple(found), step, time_ms)

            self.put_row(torch.stack(flat), then)

    def put_row(self, row: Any, then: Callable[[list[float]], None]) -> None:
        """Start the copy of a float64 row on a device; `then` gets it when it has arrived."""
        import torch

        host = torch.empty(len(row), dtype=torch.float64, pin_memory=True)
        host.copy_(row, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(row.device))
        self.pending.append((then, host, event))

    def drain(self, *, wait: bool = False) -> None:
        """Hand on what has arrived; with `wait` everything."""
        while self.pending:
            then, host, event = self.pending[0]
            if wait:
                event.synchronize()
            elif not event.query():
                return
            self.pending.popleft()
            then(host.tolist())
