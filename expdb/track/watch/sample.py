"""One sampled update: everything that is measured in it, collected in one row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from expdb.monitor import formulas
from expdb.track import lm
from expdb.track.watch import attention, log_bins, memory, tokens
from expdb.track.watch.row import Row

if TYPE_CHECKING:
    from torch import Tensor

    from expdb.track.watch.first import First
    from expdb.track.watch.options import Options
    from expdb.track.watch.out import Out
    from expdb.track.watch.parts import Parts


class Sample:
    """What is measured in one update; `rare` says whether the dear things are, too."""

    def __init__(self, parts: Parts, out: Out, options: Options, step: int, *, rare: bool) -> None:
        self.row = Row(parts.device)
        self.rates: list[list[Any]] | None = None
        """The rate of each group of each optimizer; None until the gradients were seen."""
        self.has_logits = False
        self.first: First | None = None
        """Set on the first sample of a process."""
        self._parts, self._out, self._options = parts, out, options
        self._step, self.is_rare = step, rare
        self._num_batches = 0
        self._length = 0
        self._hits: list[Tensor] = []
        self._small: Any = None

    # During the update

    def batch(self, batch: Any) -> None:
        """Take the first micro-batch: its length, and on rare samples its repeats."""
        self._num_batches += 1
        if self._num_batches > 1 or "tokens" not in self._options.kinds:
            return
        found = tokens.tokens_in(batch)
        if found is None:
            return
        self._length = int(found.shape[1])
        if self.is_rare:
            flat, shape = found.detach().reshape(-1), found.shape
            if flat.is_cuda:
                flat = flat.double()
            self._out.later(
                flat if flat.is_cuda else flat.tolist(),
                lambda numbers: self._repeats(numbers, shape),
            )

    def _repeats(self, numbers: list[float], shape: Any) -> None:
        import numpy as np

        self.row.known["train/repeat_share"] = tokens.repeat_share(
            np.asarray(numbers).reshape(tuple(shape))
        )

    def observe(self, logits: Tensor, targets: Tensor) -> None:
        """Count the tokens that the largest logit names."""
        import torch

        hits, num = lm.token_hits(logits, targets, shift=False)
        self._hits.append(torch.stack([hits, num]).double())
        if self.first is not None:
            self.first.observe(logits, targets)

    def micro(self, tokens_seen: Any, factor: Any) -> None:
        """Keep the squared norm of the first micro-batch's mean gradient."""
        if self._parts.norms is None or self._small is not None:
            return
        squared = self._parts.norms.squared()
        if squared is not None:
            self._small = (squared * factor * factor, tokens_seen)

    def gradients(self, num_tokens: Any, optims: Sequence[Any], scale: float) -> None:
        """Take the gradients of the update, and the rates that the optimizers will use."""
        self.rates = [[_rate(group["lr"]) * scale for group in one.param_groups] for one in optims]
        norms = self._parts.norms
        if norms is None:
            return
        norms.gradients(self.row)
        whole = norms.squared() if self._small is not None else None
        if whole is not None and num_tokens is not None:
            numbers = [self._small[0], self._small[1], whole, num_tokens]
            self.row.add([_scalar(one, whole) for one in numbers], self._noise)

    def _noise(self, found: list[float]) -> dict[str, float]:
        small_sq, small, big_sq, big = found
        value = self._parts.noise.update(small_sq=small_sq, small=small, big_sq=big_sq, big=big)
        return {} if math.isnan(value) else {"train/noise_scale": value}

    def moved(self, optim: Any, optims: Sequence[Any]) -> None:
        """Take what an optimizer did, before its gradients are cleared."""
        if self._parts.norms is not None and self.rates is not None:
            at = next(n for n, one in enumerate(optims) if one is optim)
            self._parts.norms.updates(self.row, optim, self.rates[at])
        if self.is_rare and "memory" in self._options.kinds:
            self.row.known |= memory.categories(self._parts.params, optims)

    # Rare things

    def histograms(self) -> Callable[[str, Tensor], None] | None:
        """Return what keeps activations as histograms; None where nobody asked."""
        if not (self.is_rare and self._options.histograms):
            return None
        return self._histogram

    def _histogram(self, name: str, values: Tensor) -> None:
        key, step = f"layer/{name}/act", self._step
        packed = log_bins.counted(values)
        self._out.later(packed, lambda row: self._out.histogram(key, log_bins.fields(row), step))

    def pictures(self) -> Callable[[str, Tensor], None] | None:
        """Return what keeps attention as pictures; None where this sample has none."""
        return self._picture if self.is_rare else None

    def _picture(self, name: str, weights: Tensor) -> None:
        import numpy as np

        shape, key, step = tuple(weights.shape), f"layer/{name}/attention", self._step

        def then(numbers: list[float]) -> None:
            found = np.asarray(numbers).reshape(shape)
            if np.isfinite(found).all():
                self._out.image(key, attention.picture(found), step)

        self._out.later(weights.detach().double().reshape(-1), then)

    # At the end

    def finish(self, loss: Any, known: Mapping[str, float]) -> None:
        """Add what is known when the update is over."""
        parts, options = self._parts, self._options
        self.row.known |= known
        if "tokens" in options.kinds:
            self._of_tokens(loss)
        for one in parts.routing:
            one.finish(self.row)
        if "memory" in options.kinds:
            self.row.known |= memory.memory(parts.device) | parts.system.read()
            self._mfu()
        if self.is_rare and parts.embeddings is not None:
            self._of_embeddings()

    def _of_tokens(self, loss: Any) -> None:
        if self._hits:
            hits, decode = sum(self._hits[1:], self._hits[0]), _accuracy
            self.row.add(hits, decode)
        if loss is None:
            return
        per_token = self._options.bytes_per_token

        def decode_loss(found: list[float]) -> dict[str, float]:
            values = {"train/ppl": formulas.perplexity(found[0], 1)}
            if per_token:
                values["train/bits_per_byte"] = formulas.bits_per_byte(found[0], per_token)
            return values

        if isinstance(loss, float):
            self.row.known |= decode_loss([loss])
        else:
            self.row.add([loss], decode_loss)

    def _mfu(self) -> None:
        parts = self._parts
        rate = self.row.known.pop("train/tokens_per_s", 0.0)
        peak = self._options.peak_flops or memory.peak_flops(parts.device)
        if not (rate and peak and len(parts.models) == 1):
            return
        channels = parts.attention.channels if parts.attention is not None else 0
        flops = memory.flops_per_token(parts.models[0], channels=channels, length=self._length)
        self.row.known["train/mfu"] = rate * flops / peak

    def _of_embeddings(self) -> None:
        import numpy as np
        import torch

        assert self._parts.embeddings is not None
        embeddings = self._parts.embeddings
        for name, rows in embeddings.rows().items():
            shape, row = tuple(rows.shape), self.row

            def then(numbers: Any, name: str = name, shape: Any = shape, row: Row = row) -> None:
                host = torch.from_numpy(np.asarray(numbers, dtype=np.float64)).reshape(shape)
                row.known |= embeddings.measured({name: host})

            # Before the row itself, so that what it gives is there when that arrives.
            self._out.later(rows.double().reshape(-1), then)


def _accuracy(found: list[float]) -> dict[str, float]:
    hits, num = found
    return {"train/token_acc": hits / num} if num else {}


def _rate(rate: Any) -> Any:
    """Return a rate as a number, unless it is a tensor on an accelerator."""
    return rate if getattr(getattr(rate, "device", None), "type", "cpu") != "cpu" else float(rate)


def _scalar(value: Any, like: Tensor) -> Tensor:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().to(like.device, torch.float64).reshape(())
    return torch.full((), float(value), dtype=torch.float64, device=like.device)
