"""The byte-level language model: a pre-norm decoder with rotary positions and SwiGLU.

Tensor names end in their shape, as in `expdb.demo.layers`. With a `MoeConfig` every MLP but the
first is a mixture of experts.

Invariant: logits at position t depend on tokens 0..t only. There are no biases, and the head is
not tied to the embedding; the default has exactly 381,600 parameters.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from expdb.demo.layers import NORM_EPS, Attention, DenseConfig, Layout, SwiGLU
from expdb.demo.moe import MixtureMlp, MoeConfig
from expdb.errors import BadInput

VOCAB_SIZE = 256


class Block(nn.Module):
    """One layer: attention and MLP, each on a normalised copy of the residual stream."""

    def __init__(self, config: DenseConfig, index: int) -> None:
        super().__init__()
        self.attn_norm = nn.RMSNorm(config.d, eps=NORM_EPS)
        self.attn = Attention(config)
        self.mlp_norm = nn.RMSNorm(config.d, eps=NORM_EPS)
        self.mlp = _mlp(config, index)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, layout: Layout | None) -> Tensor:
        """Return the residual stream after this layer."""
        x_BTD = x_BTD + self.dropout(self.attn(self.attn_norm(x_BTD), layout))
        y_BTD: Tensor = x_BTD + self.dropout(self.mlp(self.mlp_norm(x_BTD)))
        return y_BTD


def _mlp(config: DenseConfig, index: int) -> nn.Module:
    """Return the MLP of a layer; the first one is dense, as its routing balances slowest."""
    if isinstance(config, MoeConfig) and index > 0:
        return MixtureMlp(config)
    return SwiGLU(config.d, config.hidden)


class Decoder(nn.Module):
    """The language model: byte tokens in, next-byte logits out.

    With a `generator` the weights depend on nothing but its state; without one they come from
    torch's global generator.
    """

    def __init__(self, config: DenseConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(VOCAB_SIZE, config.d)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, index) for index in range(config.layers))
        self.norm = nn.RMSNorm(config.d, eps=NORM_EPS)
        self.head = nn.Linear(config.d, VOCAB_SIZE, bias=False)
        self._init_weights(generator)

    def _init_weights(self, generator: torch.Generator | None) -> None:
        # Two projections a layer add to the residual stream: the smaller std keeps its variance
        # at the end of the stack independent of depth.
        out_std = self.config.init_std / math.sqrt(2 * self.config.layers)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                nn.init.ones_(parameter)
                continue
            std = out_std if name.endswith(".out.weight") else self.config.init_std
            nn.init.normal_(parameter, std=std, generator=generator)

    def forward(self, tokens_BT: Tensor, layout: Layout | None = None) -> Tensor:
        """Return logits_BTV for int64 `tokens_BT`; row t predicts token t + 1.

        Raises: BadInput when there are more positions than `config.seq_len`.
        """
        last = tokens_BT.size(1) if layout is None else int(layout.positions_T.max()) + 1
        if last > self.config.seq_len:
            raise BadInput(
                f"the model takes {self.config.seq_len} positions, not {last}",
                hint="raise model.seq_len",
            )
        x_BTD: Tensor = self.dropout(self.embed(tokens_BT))
        for block in self.blocks:
            x_BTD = block(x_BTD, layout)
        logits_BTV: Tensor = self.head(self.norm(x_BTD))
        return logits_BTV


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters, shared ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
