"""The part of a run that a watch needs, and small trainings that it looks at."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from expdb.track.watchable import Watchable

torch.set_num_threads(1)
ALWAYS = {"budget_pct": 0, "every": 1}


class Said:
    def __init__(self):
        self.warnings = []

    def warning(self, message):
        self.warnings.append(message)


class Noted(Watchable):
    """Keeps what is logged."""

    def __init__(self, **settings):
        self.settings, self.step, self.console = {"watch": {**ALWAYS, **settings}}, 0, Said()
        self.points, self.images, self.hists = {}, {}, {}

    def log(self, metrics, step=None):
        for key, value in metrics.items():
            assert (key, step) not in self.points
            self.points[key, step] = value

    def log_image(self, key, image, step=None):
        self.images[key, step] = image

    def add_hist(self, key, fields, step):
        self.hists[key, step] = fields

    def at(self, step):
        """Key -> value of one step."""
        return {key: value for (key, at), value in self.points.items() if at == step}

    def steps(self, key):
        return [step for name, step in self.points if name == key]


class TinyAttention(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, d = x.shape
        split = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*split, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Tiny(nn.Module):
    """Embedding, attention, a ReLU MLP, a head; 17 tokens, width 16."""

    def __init__(self, layers=2, width=16):
        super().__init__()
        self.embed = nn.Embedding(17, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(width),
                    "attn": TinyAttention(width),
                    "mlp": nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width)),
                }
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 17)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block["attn"](block["norm"](x))
            x = x + block["mlp"](x)
        return self.head(x)


def tiny(seed=0):
    torch.manual_seed(seed)
    return Tiny()


def batch(seed=1, rows=4, length=12):
    return torch.randint(0, 17, (rows, length), generator=torch.Generator().manual_seed(seed))


def loss_of(model, tokens):
    logits = model(tokens[:, :-1]).flatten(0, 1)
    return F.cross_entropy(logits, tokens[:, 1:].flatten())


def step(model, optim, tokens=None, *, keep=False):
    """One update; with `keep` the gradients stay."""
    optim.zero_grad()
    loss = loss_of(model, batch() if tokens is None else tokens)
    loss.backward()
    optim.step()
    return float(loss.detach())
