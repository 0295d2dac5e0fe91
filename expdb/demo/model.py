"""The byte-level language model: a dense pre-norm decoder with rotary positions and SwiGLU.

Tensor names end in their shape:

    B  sequences in a batch      H  attention heads
    T  positions                 K  channels of one head, D / H
    D  width of the model        V  vocabulary: the 256 byte values
    F  hidden width of the MLP

Invariant: logits at position t depend on tokens 0..t only. There are no biases, and the head is
not tied to the embedding; the default has exactly 381,600 parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expdb.errors import BadInput

VOCAB_SIZE = 256
NORM_EPS = 1e-6
ROPE_BASE = 1_000.0
"""The slowest channels then turn by a fraction of a circle over the 128 positions trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseConfig:
    """The shape and initialisation of a dense decoder."""

    kind: str = "dense"
    d: int = 96
    """Width of the residual stream."""
    layers: int = 3
    heads: int = 4
    hidden: int = 256
    """Hidden width of the SwiGLU MLP."""
    seq_len: int = 128
    """Most positions one forward pass takes."""
    dropout: float = 0.0
    """Applied to the embedding and to the output of every attention and MLP."""
    init_std: float = 0.02
    """Standard deviation of all matrices; output projections get init_std / sqrt(2 layers)."""

    def __post_init__(self) -> None:
        for name in ("d", "layers", "heads", "hidden", "seq_len"):
            if getattr(self, name) < 1:
                raise BadInput(f"`model.{name}` must be at least 1, not {getattr(self, name)}")
        if self.d % (2 * self.heads):
            raise BadInput(
                f"`model.d` {self.d} does not give each of {self.heads} heads an even width",
                hint="take d as a multiple of 2 x heads",
            )
        if not 0.0 <= self.dropout < 1.0:
            raise BadInput(f"`model.dropout` must be in [0, 1), not {self.dropout}")
        if not (math.isfinite(self.init_std) and self.init_std > 0.0):
            raise BadInput(f"`model.init_std` must be a positive number, not {self.init_std}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Where the tokens of a row stand and what they see, when a row is not one plain sequence."""

    positions_T: Tensor
    """int64 [T]: the position of each token, for the rotary embedding."""
    sees_TT: Tensor
    """bool [T, T]: whether the token of the row may attend to that of the column."""


class Rotary(nn.Module):
    """Rotary position embedding, half-split: channel i is paired with channel i + K/2.

    Source: RoFormer (arXiv 2104.09864) section 3.4.2, in the half-split layout of GPT-NeoX.
    """

    cos_TK: Tensor
    sin_TK: Tensor

    def __init__(self, channels: int, seq_len: int) -> None:
        super().__init__()
        pairs = torch.arange(0, channels, 2, dtype=torch.float32) / channels
        angles = torch.outer(torch.arange(seq_len, dtype=torch.float32), ROPE_BASE**-pairs)
        # Derived from the config alone, so a checkpoint need not carry them. The sine carries
        # the sign of the turn, which saves a negation of half of every vector.
        cos, sin = angles.cos(), angles.sin()
        self.register_buffer("cos_TK", torch.cat([cos, cos], dim=-1), persistent=False)
        self.register_buffer("sin_TK", torch.cat([-sin, sin], dim=-1), persistent=False)

    def forward(self, x_BHTK: Tensor, layout: Layout | None) -> Tensor:
        """Return `x_BHTK` with each pair of channels turned by its position's angle."""
        at = slice(x_BHTK.size(2)) if layout is None else layout.positions_T
        low, high = x_BHTK.chunk(2, dim=-1)
        swapped_BHTK = torch.cat([high, low], dim=-1)
        # The tables are float32; under autocast q and k must come back in the dtype of v.
        return (x_BHTK * self.cos_TK[at] + swapped_BHTK * self.sin_TK[at]).type_as(x_BHTK)


class Attention(nn.Module):
    """Causal self-attention over all earlier positions, or over what a layout allows."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.d, 3 * config.d, bias=False)
        self.out = nn.Linear(config.d, config.d, bias=False)
        self.rotary = Rotary(config.d // config.heads, config.seq_len)

    def forward(self, x_BTD: Tensor, layout: Layout | None) -> Tensor:
        """Return the attention output, the shape of `x_BTD`."""
        b, t, d = x_BTD.shape
        qkv = self.qkv(x_BTD).view(b, t, 3, self.heads, d // self.heads)
        q_BHTK, k_BHTK, v_BHTK = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y_BHTK = F.scaled_dot_product_attention(
            self.rotary(q_BHTK, layout),
            self.rotary(k_BHTK, layout),
            v_BHTK,
            attn_mask=None if layout is None else layout.sees_TT,
            is_causal=layout is None,
        )
        y_BTD: Tensor = self.out(y_BHTK.transpose(1, 2).reshape(b, t, d))
        return y_BTD


class SwiGLU(nn.Module):
    """The MLP: silu(gate x) * (up x), projected back."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.d, config.hidden, bias=False)
        self.up = nn.Linear(config.d, config.hidden, bias=False)
        self.out = nn.Linear(config.hidden, config.d, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return the MLP output, the shape of `x_BTD`."""
        h_BTF = F.silu(self.gate(x_BTD)) * self.up(x_BTD)
        y_BTD: Tensor = self.out(h_BTF)
        return y_BTD


class Block(nn.Module):
    """One layer: attention and MLP, each on a normalised copy of the residual stream."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.attn_norm = nn.RMSNorm(config.d, eps=NORM_EPS)
        self.attn = Attention(config)
        self.mlp_norm = nn.RMSNorm(config.d, eps=NORM_EPS)
        self.mlp = SwiGLU(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, layout: Layout | None) -> Tensor:
        """Return the residual stream after this layer."""
        x_BTD = x_BTD + self.dropout(self.attn(self.attn_norm(x_BTD), layout))
        y_BTD: Tensor = x_BTD + self.dropout(self.mlp(self.mlp_norm(x_BTD)))
        return y_BTD


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
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
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
