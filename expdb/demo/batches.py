"""An endless stream of random windows over one text or a mixture, with an exact position.

Invariant: the windows depend on the texts, the sizes and the loader's own generator only. The
global generators are neither read nor moved, and `state_dict` continues at the very next batch.
A batch has the same number and the same windows whichever batches are bad or skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from expdb.errors import BadInput

NUM_BYTES = 256
SEED_STEP = 1_000_003
"""Keeps the random bytes of a bad batch apart between seeds."""


class ByteBatches:
    """Iterates `{"tokens": int64 [batch_size, seq_len + 1]}`; ranks take different seeds.

    A batch whose number is in `bad` is random bytes; one in `skip` is drawn and left out.
    """

    def __init__(
        self,
        text: Tensor,
        *,
        batch_size: int,
        seq_len: int,
        seed: int,
        device: torch.device | str = "cpu",
        bad: Collection[int] = (),
        skip: Collection[int] = (),
    ) -> None:
        if text.numel() < seq_len + 1:
            raise BadInput(
                f"the text has {text.numel()} bytes; a window takes {seq_len + 1}",
                hint="lower model.seq_len",
            )
        self._text = text
        self._batch_size = batch_size
        self._device = torch.device(device)
        self._window = torch.arange(seq_len + 1)
        self._num_starts = text.numel() - seq_len
        self._seed = seed
        self._generator = torch.Generator().manual_seed(seed)
        self._num_batches = 0
        self._bad, self._skip = frozenset(bad), frozenset(skip)

    @property
    def tokens_per_batch(self) -> int:
        """Predicted tokens in one batch; the first byte of a window has no prediction."""
        return self._batch_size * (len(self._window) - 1)

    @property
    def counts(self) -> Mapping[str, int]:
        """Sequences drawn of each source so far; empty for one text."""
        return {}

    def __iter__(self) -> ByteBatches:
        return self

    def __next__(self) -> dict[str, Tensor]:
        while True:
            number, starts_B = self._num_batches, self._draw()
            self._num_batches += 1
            if number not in self._skip:
                break
        if number in self._bad:
            tokens_BT = self._noise(number)
        else:
            tokens_BT = self._text[starts_B[:, None] + self._window].long()
        return {"tokens": tokens_BT.to(self._device, non_blocking=True)}

    def _draw(self) -> Tensor:
        """Return where the windows of the next batch start."""
        return torch.randint(
            self._num_starts, (self._batch_size,), generator=self._generator, dtype=torch.int64
        )

    def _noise(self, number: int) -> Tensor:
        # Of the batch's number alone: a bad batch is the same one after a resume.
        generator = torch.Generator().manual_seed(self._seed * SEED_STEP + number)
        shape = (self._batch_size, len(self._window))
        return torch.randint(NUM_BYTES, shape, generator=generator, dtype=torch.int64)

    def state_dict(self) -> dict[str, Any]:
        """Return the generator's state and the number of batches drawn."""
        return {"generator": self._generator.get_state(), "num_batches": self._num_batches}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the batch that followed when `state` was taken."""
        self._generator.set_state(state["generator"].cpu())
        self._num_batches = int(state["num_batches"])


class MixBatches(ByteBatches):
    """Windows over several texts; each sequence's text is drawn by weight, and never crosses one.

    `texts` and `weights` have the same names; weights may have any positive sum.
    """

    def __init__(
        self,
        texts: Mapping[str, Tensor],
        weights: Mapping[str, float],
        *,
        batch_size: int,
        seq_len: int,
        seed: int,
        device: torch.device | str = "cpu",
        bad: Collection[int] = (),
        skip: Collection[int] = (),
    ) -> None:
        shortest = min(texts.values(), key=lambda text: text.numel())
        super().__init__(
            shortest, batch_size=batch_size, seq_len=seq_len, seed=seed, device=device,
            bad=bad, skip=skip,
        )  # fmt: skip
        self._names = tuple(texts)
        self._text = torch.cat([texts[name] for name in self._names])
        sizes_S = torch.tensor([texts[name].numel() for name in self._names])
        self._offsets_S = sizes_S.cumsum(0) - sizes_S
        self._starts_S = sizes_S - seq_len
        self._weights_S = torch.tensor([weights[name] for name in self._names])
        self._counts_S = torch.zeros(len(self._names), dtype=torch.int64)

    @property
    def counts(self) -> Mapping[str, int]:
        """Sequences drawn of each source so far."""
        return dict(zip(self._names, self._counts_S.tolist(), strict=True))

    def _draw(self) -> Tensor:
        source_B = torch.multinomial(
            self._weights_S, self._batch_size, replacement=True, generator=self._generator
        )
        # Float64: a product with a number of starts is exact enough for any text that fits here.
        place_B = torch.rand(self._batch_size, generator=self._generator, dtype=torch.float64)
        self._counts_S += torch.bincount(source_B, minlength=len(self._names))
        return self._offsets_S[source_B] + (place_B * self._starts_S[source_B]).long()

    def state_dict(self) -> dict[str, Any]:
        """Return the position, and the sequences drawn of each source."""
        return {**super().state_dict(), "counts": dict(self.counts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the batch that followed; a source that is new since starts at 0."""
        super().load_state_dict(state)
        counts = state.get("counts", {})
        self._counts_S = torch.tensor([int(counts.get(name, 0)) for name in self._names])
