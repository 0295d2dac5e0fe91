"""An endless stream of random windows over a text, with an exact position.

Invariant: the windows depend on the text, the sizes and the loader's own generator only. The
global generators are neither read nor moved, and `state_dict` continues at the very next batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from expdb.errors import BadInput


class ByteBatches:
    """Iterates `{"tokens": int64 [batch_size, seq_len + 1]}`; ranks take different seeds."""

    def __init__(
        self,
        text: Tensor,
        *,
        batch_size: int,
        seq_len: int,
        seed: int,
        device: torch.device | str = "cpu",
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
        self._generator = torch.Generator().manual_seed(seed)
        self._num_batches = 0

    @property
    def tokens_per_batch(self) -> int:
        """Predicted tokens in one batch; the first byte of a window has no prediction."""
        return self._batch_size * (len(self._window) - 1)

    def __iter__(self) -> ByteBatches:
        return self

    def __next__(self) -> dict[str, Tensor]:
        starts_B = torch.randint(
            self._num_starts, (self._batch_size,), generator=self._generator, dtype=torch.int64
        )
        tokens_BT = self._text[starts_B[:, None] + self._window].long()
        self._num_batches += 1
        return {"tokens": tokens_BT.to(self._device, non_blocking=True)}

    def state_dict(self) -> dict[str, Any]:
        """Return the generator's state and the number of batches given out."""
        return {"generator": self._generator.get_state(), "num_batches": self._num_batches}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the batch that followed when `state` was taken."""
        self._generator.set_state(state["generator"].cpu())
        self._num_batches = int(state["num_batches"])
