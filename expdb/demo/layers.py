"""The layers of the byte-level decoder: attention with rotary positions, and the SwiGLU MLP.

Tensor names end in their shape:

    B  sequences in a batch      H  attention heads
    T  positions                 K  channels of one head, D / H
    D  width of the model        V  vocabulary: the 256 byte values
    F  hidden width of the MLP

Invariant: the output at position t depends on positions 0..t only. There are no biases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expdb.errors import BadInput

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
    qk_norm: bool = False
    """Whether each head's queries and keys are normalised, which bounds the attention logits."""

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
        turned_BHTK: Tensor = x_BHTK * self.cos_TK[at] + swapped_BHTK * self.sin_TK[at]
        return turned_BHTK


class Attention(nn.Module):
    """Causal self-attention over all earlier positions, or over what a layout allows."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.d, 3 * config.d, bias=False)
        self.out = nn.Linear(config.d, config.d, bias=False)
        channels = config.d // config.heads
        self.rotary = Rotary(channels, config.seq_len)
        norm = nn.RMSNorm if config.qk_norm else nn.Identity
        self.q_norm, self.k_norm = norm(channels, eps=NORM_EPS), norm(channels, eps=NORM_EPS)

    def forward(self, x_BTD: Tensor, layout: Layout | None) -> Tensor:
        """Return the attention output, the shape of `x_BTD`."""
        b, t, d = x_BTD.shape
        qkv = self.qkv(x_BTD).view(b, t, 3, self.heads, d // self.heads)
        q_BHTK, k_BHTK, v_BHTK = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        # Heads are normalised and turned in float32; under autocast they come back in v's dtype.
        y_BHTK = F.scaled_dot_product_attention(
            self.rotary(self.q_norm(q_BHTK.float()), layout).type_as(v_BHTK),
            self.rotary(self.k_norm(k_BHTK.float()), layout).type_as(v_BHTK),
            v_BHTK,
            attn_mask=None if layout is None else layout.sees_TT,
            is_causal=layout is None,
        )
        y_BTD: Tensor = self.out(y_BHTK.transpose(1, 2).reshape(b, t, d))
        return y_BTD


class SwiGLU(nn.Module):
    """The MLP: silu(gate x) * (up x), projected back."""

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d, hidden, bias=False)
        self.up = nn.Linear(d, hidden, bias=False)
        self.out = nn.Linear(hidden, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the MLP output, the shape of `x`: [..., D]."""
        y: Tensor = self.out(F.silu(self.gate(x)) * self.up(x))
        return y
