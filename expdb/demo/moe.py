"""A mixture of experts as the MLP of a layer, balanced without an auxiliary loss.

Every token goes through one shared expert and the `top_k` routed ones that its scores choose. Each
routed expert has a bias that is added to its score when experts are chosen, never to the gate.
After an update the bias of an expert with more than the mean load falls by `gamma`, of one with
less it rises: no gradient, and no second loss that pulls at the first.

Tensor names end in their shape:

    N  tokens, over all sequences      C  routed experts of one token, `top_k`
    E  routed experts                  S  N x C: one place a token and expert chosen for it

Invariant: every token keeps its C experts whatever the load, so nothing is dropped and position t
sees nothing of later ones; gates of a token sum to one. Bias and load are buffers: a checkpoint
holds them.

Source: DeepSeek-V3 (arXiv 2412.19437) section 2.1.2; balancing in arXiv 2408.15664, where MaxVio
is defined: the largest load over the mean load, less one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expdb.demo.layers import DenseConfig, SwiGLU
from expdb.errors import BadInput

DEAD_PART = 0.01
"""An expert with less than this part of the mean load is counted as dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeConfig(DenseConfig):
    """The shape of a decoder whose MLPs, but the first, are mixtures of experts."""

    kind: str = "moe"
    experts: int = 8
    """Routed experts of a layer; one shared expert comes to them."""
    top_k: int = 2
    """Routed experts that a token goes through."""
    expert_hidden: int = 64
    """Hidden width of one expert."""
    gamma: float = 0.01
    """How far a bias moves after an update; 0 does not balance."""

    def __post_init__(self) -> None:
        DenseConfig.__post_init__(self)
        if self.layers < 2:
            raise BadInput(
                f"`model.layers` must be at least 2 for a mixture of experts, not {self.layers}",
                hint="the first layer is dense",
            )
        for name in ("experts", "top_k", "expert_hidden"):
            if getattr(self, name) < 1:
                raise BadInput(f"`model.{name}` must be at least 1, not {getattr(self, name)}")
        if self.top_k > self.experts:
            raise BadInput(f"`model.top_k` {self.top_k} is more than {self.experts} experts")
        if not (math.isfinite(self.gamma) and self.gamma >= 0.0):
            raise BadInput(f"`model.gamma` must be a number of at least 0, not {self.gamma}")


class Router(nn.Module):
    """Chooses the experts of each token, in float32 whatever the rest is computed in."""

    bias_E: Tensor
    load_E: Tensor
    """int64: places given to each expert since the last update."""

    def __init__(self, config: MoeConfig) -> None:
        super().__init__()
        self.top_k, self.gamma = config.top_k, config.gamma
        self.scores = nn.Linear(config.d, config.experts, bias=False)
        self.register_buffer("bias_E", torch.zeros(config.experts))
        self.register_buffer("load_E", torch.zeros(config.experts, dtype=torch.int64))

    def forward(self, x_ND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the experts of each token [N, C], their gates, and the load of each expert.

        Load is counted for balancing in training mode only.
        """
        with torch.autocast(x_ND.device.type, enabled=False):
            scores_NE = F.linear(x_ND.float(), self.scores.weight.float()).sigmoid()
        chosen_NC = (scores_NE.detach() + self.bias_E).topk(self.top_k, dim=-1).indices
        gates_NC = scores_NE.gather(-1, chosen_NC)
        load_E = torch.bincount(chosen_NC.flatten(), minlength=scores_NE.size(-1))
        if self.training:
            self.load_E += load_E
        return chosen_NC, gates_NC / gates_NC.sum(dim=-1, keepdim=True), load_E

    def monitor_routing(
        self, args: tuple[Tensor, ...], output: tuple[Tensor, ...]
    ) -> Mapping[str, Tensor]:
        """Return the load of one pass, the summed shares of the scores, and the bias, each [E]."""
        with torch.autocast(args[0].device.type, enabled=False):
            scores_NE = F.linear(args[0].float(), self.scores.weight.float()).sigmoid()
        gate_E = (scores_NE / scores_NE.sum(dim=-1, keepdim=True)).sum(dim=0)
        return {"load": output[2], "gate": gate_E, "bias": self.bias_E}

    @torch.no_grad()
    def balance(self) -> Tensor:
        """Move each bias by the load since the last call, and return that load, int64 [E]."""
        load_E = self.load_E.clone()
        self.load_E.zero_()
        mean = load_E.double().mean()
        self.bias_E += self.gamma * torch.sign(mean - load_E.double()).to(self.bias_E.dtype)
        return load_E


class MixtureMlp(nn.Module):
    """The MLP of a layer: a shared expert, and what a router adds of the routed ones."""

    def __init__(self, config: MoeConfig) -> None:
        super().__init__()
        self.router = Router(config)
        self.shared = SwiGLU(config.d, config.expert_hidden)
        self.experts = nn.ModuleList(
            SwiGLU(config.d, config.expert_hidden) for _ in range(config.experts)
        )
        # What part of them a token goes through, for counts of FLOPs.
        setattr(self.experts, "monitor_active", config.top_k / config.experts)  # noqa: B010

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return the MLP output, the shape of `x_BTD`."""
        x_ND = x_BTD.flatten(0, 1)
        chosen_NC, gates_NC, load_E = self.router(x_ND)
        n, c = chosen_NC.shape
        # Places sorted by expert: each expert computes one block. A permutation has no place
        # twice, so neither pass adds in an order of its own.
        order_S = chosen_NC.flatten().argsort(stable=True)
        x_SD = x_ND[:, None].expand(n, c, -1).reshape(n * c, -1)[order_S]
        blocks = torch.split(x_SD, load_E.tolist())
        y_SD = torch.cat(
            [expert(block) for expert, block in zip(self.experts, blocks, strict=True)]
        )
        y_NCD = y_SD[order_S.argsort()].view(n, c, -1)
        routed_ND = (y_NCD * gates_NC[:, :, None]).sum(dim=1)
        y_BTD: Tensor = self.shared(x_BTD) + routed_ND.type_as(x_BTD).view_as(x_BTD)
        return y_BTD


def balance(model: nn.Module) -> dict[str, float]:
    """Balance every router after an update, and return what it saw; empty without experts.

    Keys, worst over the layers: `train/moe_max_vio` (largest load over the mean, less one),
    `train/moe_load_max_pct` and `_min_pct` (of the places of a layer), `train/moe_bias_max`;
    `train/moe_num_dead` counts over all layers. A layer that saw no token is left out.
    """
    routers = [module for module in model.modules() if isinstance(module, Router)]
    loads = [router.balance() for router in routers]
    seen = [load_E.double() / load_E.sum() for load_E in loads if load_E.any()]
    if not seen:
        return {}
    part_LE = torch.stack(seen)
    experts = part_LE.size(1)
    return {
        "train/moe_max_vio": float(part_LE.max()) * experts - 1.0,
        "train/moe_load_max_pct": 100.0 * float(part_LE.max()),
        "train/moe_load_min_pct": 100.0 * float(part_LE.min()),
        "train/moe_num_dead": float((part_LE * experts < DEAD_PART).sum()),
        "train/moe_bias_max": max(float(router.bias_E.abs().max()) for router in routers),
    }
