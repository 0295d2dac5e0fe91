"""Where the first number that is not finite came from: the batch, the module, the gradients.

On the host the loss and the gradient norm of an update are known before the optimizers step, so the
weights are still as they were: the same forward passes are done again under hooks, and the first
module whose output is not finite, in the order in which modules finish, is named. On an accelerator
they are known some updates later; then the weights are looked at, and the batch is named by its
number.

Invariant: generators and buffers are as before afterwards, gradients and weights are read only.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from expdb.track import rng
from expdb.track.state import unwrap
from expdb.track.untouched import same_buffers
from expdb.track.watch.units import is_compiled

RULE: Final = "forensics"
KEPT: Final = 16
"""Updates whose batches can still be named."""
ID_NAMES: Final = ("id", "ids", "index", "indices", "idx", "batch_id", "doc_ids")
MAX_NAMED: Final = 5
MAX_IDS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is known of the first number that is not finite."""

    step: int
    what: str
    """`train/loss is NaN` and the like."""
    batches: tuple[int, int] | None
    """First and last micro-batch of the update, counted from 0 as the loader gave them."""
    ids: tuple[Any, ...] = ()
    """What the batches say they are."""
    module: str | None = None
    """The first module with such an output; None where the forward passes are finite."""
    input_was_finite: bool = True
    weights: tuple[str, ...] = ()
    """Parameters that are not finite."""
    gradients: tuple[str, ...] = ()
    """Parameters whose gradient is not finite."""
    scaler: Mapping[str, float] | None = field(default=None)

    def message(self) -> str:
        """Return it in one line."""
        parts = [f"{self.what} at step {self.step}"]
        if self.batches is not None:
            first, last = self.batches
            parts.append(f"batch {first}" if first == last else f"batches {first} to {last}")
        if self.ids:
            parts.append(f"ids {', '.join(map(str, self.ids[:MAX_NAMED]))}")
        if self.weights:
            parts.append(f"weights not finite already: {_named(self.weights)}")
        elif self.module is not None:
            from_where = "" if self.input_was_finite else ", whose input is not either"
            parts.append(f"first module that is not finite: {self.module}{from_where}")
        elif self.gradients:
            parts.append(f"forward finite, gradients not: {_named(self.gradients)}")
        if self.scaler is not None:
            parts.append(f"scale {self.scaler['scale']:g}")
        return "; ".join(parts)

    def as_json(self) -> str:
        """Return all of it."""
        return json.dumps(asdict(self), indent=1, default=str)


def _named(names: tuple[str, ...]) -> str:
    rest = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + rest


class Forensics:
    """Keeps what a report needs: the inputs of this update, and the batches of the last ones."""

    def __init__(
        self,
        models: Mapping[str, Any],
        autocast: Callable[[], AbstractContextManager[Any]],
        scaler: Callable[[], Any],
    ) -> None:
        self._models = {name: unwrap(one) for name, one in models.items()}
        self._autocast, self._scaler = autocast, scaler
        self._calls: list[tuple[Any, Any, Any]] = []
        self._batches: deque[tuple[int, int, list[Any]]] = deque(maxlen=KEPT)
        self._is_told = False
        self._handles = [
            one.register_forward_pre_hook(self._called, with_kwargs=True)
            for name, one in self._models.items()
            if not is_compiled(models[name])
        ]

    def close(self) -> None:
        """Take the hooks away."""
        while self._handles:
            self._handles.pop().remove()
        self._calls = []

    def begin(self, step: int) -> None:
        """Begin an update."""
        self._calls = []
        self._batches.append((step, -1, []))

    def batch(self, batch: Any, number: int) -> None:
        """Take a micro-batch with its number."""
        step, first, ids = self._batches[-1]
        ids.extend(_ids_in(batch))
        self._batches[-1] = (step, number if first < 0 else first, ids)

    def _called(self, module: Any, args: Any, kwargs: Any) -> None:
        import torch

        if torch.is_grad_enabled() and torch._C._current_graph_task_id() == -1:
            self._calls.append((module, args, kwargs))

    def looks_good(self) -> None:
        """Note that the numbers are finite, so that the next one that is not is told again."""
        self._is_told = False

    def report(self, step: int, what: str, *, num_micro: int, at_once: bool) -> Report | None:
        """Return what is known of an update; None where such a spell was told already.

        With `at_once` it is the update under way and its optimizers have not stepped.
        """
        if self._is_told:
            return None
        self._is_told = True
        found = next((one for one in reversed(self._batches) if one[0] == step), None)
        first = found[1] if found is not None else -1
        weights = tuple(_not_finite((n, p) for n, p in self._named_parameters()))
        module, was_finite = None, True
        if at_once and not weights:
            module, was_finite = self._repeat()
        grads = ((n, p.grad) for n, p in self._named_parameters() if p.grad is not None)
        scaler = self._scaler()
        return Report(
            step=step,
            what=what,
            batches=(first, first + num_micro - 1) if first >= 0 else None,
            ids=tuple(found[2][:MAX_IDS]) if found is not None else (),
            module=module,
            input_was_finite=was_finite,
            weights=weights,
            gradients=tuple(_not_finite(grads)) if at_once else (),
            scaler=None if scaler is None else {"scale": float(scaler.get_scale())},
        )

    def _named_parameters(self) -> Iterator[tuple[str, Any]]:
        for name, model in self._models.items():
            for key, param in model.named_parameters():
                yield f"{name}.{key}" if name else key, param

    def _repeat(self) -> tuple[str | None, bool]:
        """Do the forward passes again; return the first bad module, and whether its input was
        good.
        """
        import torch

        found: list[tuple[str, bool]] = []

        def after(name: str) -> Callable[..., None]:
            def hook(module: Any, args: Any, out: Any) -> None:
                if not found and not _is_finite(out):
                    found.append((name, _is_finite(args)))

            return hook

        calls, self._calls = self._calls, []
        handles = [
            module.register_forward_hook(after(_joined(prefix, path)))
            for prefix, model in self._models.items()
            for path, module in model.named_modules()
        ]
        try:
            kept = same_buffers(self._models.values())
            with rng.preserved(), torch.no_grad(), self._autocast(), kept:
                for module, args, kwargs in calls:
                    module(*args, **kwargs)
                    if found:
                        break
        finally:
            for one in handles:
                one.remove()
        return found[0] if found else (None, True)


def _joined(prefix: str, path: str) -> str:
    return ".".join(one for one in (prefix, path) if one) or "the model itself"


def _is_finite(value: Any) -> bool:
    import torch

    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return True
    return all(map(_is_finite, value))


def _not_finite(named: Iterable[tuple[str, Any]]) -> Iterator[str]:
    return (name for name, one in named if not _is_finite(one.detach()))


def _ids_in(batch: Any) -> list[Any]:
    if not isinstance(batch, Mapping):
        return []
    value: Any = next((batch[name] for name in ID_NAMES if name in batch), None)
    if hasattr(value, "tolist"):
        on_host = getattr(getattr(value, "device", None), "type", "cpu") == "cpu"
        value = value.tolist() if on_host else None  # a device is not waited for
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
