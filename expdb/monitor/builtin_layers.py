"""The built-in rules over what is measured inside the model and the device.

Invariant: as in builtin.py; each is silent in a run that does not log its signal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LAYERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "layer_grad": {
        "signal": ["layer/*/grad_norm", "group/*/grad_norm"],
        "detector": "log_spike",
        "need": 3,
        "least": 10,
        "sure": 1e9,
        "decision": "look at this layer",
        "runbook": {
            "cause": "one layer leaves its own history although the whole norm is quiet",
            "checks": "its init, its inputs, its own rate",
            "action": "mend that layer, or lower its rate",
        },
    },
    "adam_stale": {
        "signal": ["layer/*/adam_staleness", "group/*/adam_staleness"],
        "detector": "threshold",
        "above": 2.3,
        "for_samples": 2,
        "clear": 3,
        "phase": ["stable", "decay"],
        "decision": "lower beta2, or clip updates",
        "runbook": {
            "cause": "gradients grew faster than the second moment follows; spikes of the loss"
            " come a few steps later",
            "checks": "the embedding first, train/grad_norm, beta2",
            "action": "beta2 of 0.95, or clip the update by its size",
        },
    },
    "update_ratio": {
        "signal": ["layer/*/update_ratio", "group/*/update_ratio"],
        "detector": "threshold",
        "severity": "info",
        "above": 1e-2,
        "below": 1e-5,
        "for_samples": 5,
        "clear": 3,
        "phase": ["stable", "decay"],
        "decision": "change the rate of that group",
        "runbook": {
            "cause": "steps too large or too small for these weights",
            "checks": "the rate of its group, weight decay, whether it is frozen",
            "action": "about 1e-3 is usual",
        },
    },
    "activation_growth": {
        "signal": "layer/*/act_rms",
        "detector": "log_spike",
        "floor": 0.3838,
        "least": 10,
        "need": 2,
        "sure": 1e9,
        "decision": "look at norm and residual scale of that layer",
        "runbook": {
            "cause": "activations ten times their own history",
            "checks": "the norm before it, its weights, act_max against the largest number",
            "action": "lower the rate, or add a norm",
        },
    },
    "activation_outliers": {
        "signal": "layer/*/act_kurtosis",
        "detector": "threshold",
        "severity": "info",
        "above": 100.0,
        "for_samples": 5,
        "clear": 3,
        "decision": "keep that layer out of quantisation",
        "runbook": {
            "cause": "a few channels carry most of the size",
            "checks": "act_max, which channels",
            "action": "a norm before it; weight decay on it",
        },
    },
    "dead_units": {
        "signal": "layer/*/act_dead",
        "detector": "threshold",
        "above": 0.5,
        "for_samples": 5,
        "clear": 3,
        "except": ["layer/*experts*/act_dead", "layer/*moe*/act_dead"],
        "decision": "change init or rate of that layer",
        "runbook": {
            "cause": "units that no token of the window switches on",
            "checks": "the bias and init of the layer, the rate in warm-up",
            "action": "another init, a lower rate, or an activation that does not die",
        },
    },
    "attn_logit": {
        "signal": "layer/*/attn_logit_max",
        "detector": "threshold",
        "above": 50.0,
        "grave_above": 1000.0,  # healthy runs in fp32 learn at 170; at 1000 reported ones diverged
        "for_samples": 2,
        "clear": 3,
        "decision": "normalise queries and keys, or lower the rate",
        "runbook": {
            "cause": "attention scores grow until softmax saturates",
            "checks": "the norms of q and k, attn_entropy of the same layer",
            "action": "QK norm, QK clip, or a lower rate",
        },
    },
    "attn_collapse": {
        "signal": "layer/*/attn_entropy_q25",
        "detector": "threshold",
        "below": 0.1,
        "for_samples": 3,
        "clear": 3,
        "decision": "normalise queries and keys, or lower the rate",
        "runbook": {
            "cause": "a quarter of the heads look at one token",
            "checks": "attn_logit_max of the same layer, the heat map",
            "action": "QK norm, or a lower rate",
        },
    },
    "emb_collapse": {
        "signal": "layer/*/emb_cosine",
        "detector": "threshold",
        "above": 0.5,
        "for_samples": 2,
        "clear": 2,
        "decision": "change init, rate or tying of the embedding",
        "runbook": {
            "cause": "the rows of the embedding point the same way",
            "checks": "emb_rank, the rate of the embedding, weight decay on it",
            "action": "no weight decay on it, a lower rate, or another init",
        },
    },
    "emb_rank_drop": {
        "signal": "layer/*/emb_rank",
        "detector": "threshold",
        "below": 0.5,
        "of_first": True,
        "for_samples": 2,
        "clear": 2,
        "decision": "change init, rate or tying of the embedding",
        "runbook": {
            "cause": "the embedding uses half of the directions that it began with",
            "checks": "emb_cosine, the rate of the embedding",
            "action": "as emb_collapse",
        },
    },
    "moe_imbalance": {
        "signal": "layer/*/moe_max_vio",
        "detector": "threshold",
        "above": 1.0,
        "grave_above": 3.0,
        "for": 200,
        "for_samples": 3,
        "clear": 5,
        "decision": "raise gamma, or use a balancing loss",
        "runbook": {
            "cause": "some experts get most of the tokens",
            "checks": "whether the bias is updated after each step, router_entropy",
            "action": "a larger gamma, a balancing loss, or a z-loss on the router",
        },
    },
    "dead_expert": {
        "signal": "layer/*/moe_dead_experts",
        "detector": "threshold",
        "above": 0.0,
        "for": 200,
        "for_samples": 3,
        "clear": 5,
        "decision": "balance, or take fewer experts",
        "runbook": {
            "cause": "an expert gets under a hundredth of its share",
            "checks": "moe_max_vio, the init of the router",
            "action": "a larger gamma, or fewer experts",
        },
    },
    "amp_scale": {
        "signal": "amp/scale",
        "detector": "halvings",
        "clear": 50,
        "decision": "bf16 instead of fp16, or a lower embedding rate",
        "runbook": {
            "cause": "gradients overflow in fp16 again and again",
            "checks": "train/num_skipped_steps, the embedding's gradient",
            "action": "bf16, which needs no scale, or a lower rate of the embedding",
        },
    },
    "mem_retries": {
        "signal": "sys/memory_retries",
        "detector": "threshold",
        "above": 0.0,
        "decision": "smaller micro-batches and more of them",
        "runbook": {
            "cause": "the allocator had to give memory back and ask again",
            "checks": "sys/memory_reserved_bytes against sys/memory_allocated_bytes",
            "action": "buckets of lengths, or smaller micro-batches and more of them",
        },
    },
    "mem_full": {
        "signal": "sys/memory_peak_bytes",
        "detector": "threshold",
        "per": "sys/memory_device_bytes",
        "above": 0.90,
        "grave_above": 0.95,
        "decision": "smaller micro-batches and more of them",
        "runbook": {
            "cause": "tensors at their peak nearly fill the device",
            "checks": "sys/memory_retries, the longest sequences, expdb probe memory",
            "action": "smaller micro-batches and more of them, or recompute activations",
        },
    },
    "mem_fragments": {
        "signal": "sys/memory_allocated_bytes",
        "detector": "threshold",
        "per": "sys/memory_reserved_bytes",
        "severity": "info",
        "below": 0.7,
        "for_samples": 10,
        "clear": 5,
        "decision": "batches of like lengths",
        "runbook": {
            "cause": "blocks of other sizes at every step, or a cache that nobody needs",
            "checks": "how the length of batches varies, sys/memory_retries",
            "action": "buckets of lengths instead of padding by batch",
        },
    },
}
