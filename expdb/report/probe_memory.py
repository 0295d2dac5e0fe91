"""What training holds in memory, estimated and measured, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from expdb.report.json import document
from expdb.report.probes import row
from expdb.report.style import Style
from expdb.text import count, duration, plain, size

if TYPE_CHECKING:
    from expdb.actions.probe.estimate import Estimate
    from expdb.actions.probe.measure import Measured

CATEGORIES: Final = ("parameters", "gradients", "optimizer")
WARN, CRITICAL = 0.90, 0.95
"""Shares of a device from which on it is nearly, and as good as, full."""


def render_estimate(estimate: Estimate, style: Style) -> list[str]:
    """Return bytes a parameter and in all, of training and of inference."""
    lines = [row("", f"{'bytes a parameter':>17}{'in all':>10}").rstrip()]
    for name in CATEGORIES:
        lines.append(row(name, f"{estimate.per_param[name]:>17}{size(estimate.of(name)):>10}"))
    head = f"{count(estimate.num_params)} parameters, {estimate.precision}, {estimate.optimizer}"
    weights = estimate.per_param["parameters"]
    return [
        *lines,
        row(
            "inference", f"{weights:>17}{size(estimate.inference):>10}   weights, before the cache"
        ),
        row("training", f"{estimate.training_per_param:>17}{size(estimate.training):>10}"),
        "",
        f"{style.paint(size(estimate.training), 'bold')}  training, before activations: {head}",
    ]


def render_memory(measured: Measured, estimate: Estimate | None, style: Style) -> list[str]:
    """Return the estimate beside what was measured."""
    found = measured.found
    lines = [row("", f"{'estimate':>10}{'measured':>12}").rstrip()]
    for name in CATEGORIES:
        guess = size(estimate.of(name)) if estimate is not None else "-"
        lines.append(_line(name, guess, found[name], _each(found[name], found["num_params"])))
    for name in ("buffers", "ema"):
        if found[name]:
            lines.append(_line(name, "-", found[name]))
    note = "kept for the backward pass of one micro-batch"
    lines.append(_line("activations", "-", found["activations"], note))
    lines.append(_line("peak", "-", found["peak"], _peak_note(found)))
    optims = ", ".join(plain(str(one["name"])) for one in found["optimizers"])
    dtypes = " and ".join(found["dtypes"])
    cast = "" if found["precision"] == "fp32" else f", {found['precision']}"
    what = f"{count(found['num_params'])} parameters, {dtypes}{cast}, {optims}"
    held, inference = in_training(found), found["parameters"] + found["buffers"]
    return [
        *lines,
        row("took", duration(measured.seconds)),
        "",
        f"{style.paint(size(held), 'bold')}  training, in tensors: {plain(measured.plan.name)} on"
        f" {plain(str(found['device']))}, {what}",
        f"{size(inference)}  inference: weights and buffers, before its cache and its activations",
    ]


def _line(name: str, guess: str, measured: int, note: str = "") -> str:
    return row(name, f"{guess:>10}{size(measured):>12}   {note}".rstrip())


def _each(num_bytes: int, num_params: int) -> str:
    return f"{num_bytes / num_params:.3g} bytes a parameter" if num_params else ""


def _peak_note(found: Mapping[str, Any]) -> str:
    if found["reserved"] is None:
        return "resident size of the process, libraries and all"
    note = f"allocated; {size(found['reserved'])} reserved"
    if found["retries"]:
        note += f", {found['retries']} retries"
    return note


def in_training(found: Mapping[str, Any]) -> int:
    """Return the bytes of all tensors that training holds at once."""
    names = (*CATEGORIES, "buffers", "ema", "activations")
    return sum(int(found[name]) for name in names)


def room(found: Mapping[str, Any], cap: int | None) -> tuple[int, int] | None:
    """Return (what is needed, what there is); None where neither a cap nor a device says."""
    is_cuda = found["reserved"] is not None
    there = cap if cap is not None else found["device_bytes"]
    return None if there is None else (found["peak"] if is_cuda else in_training(found), there)


def room_line(needed: int, there: int, style: Style) -> tuple[str, bool]:
    """Return whether memory is enough as a line, and as such."""
    part = needed / there if there else 2.0
    said = f"{size(needed)} of {size(there)}, {100 * part:.0f} %"
    if part > 1:
        return f"{style.paint('too large', 'red', 'bold')}  {said}", False
    if part > CRITICAL:
        return f"{style.paint('full', 'red', 'bold')}  {said}: the next long batch ends it", False
    if part > WARN:
        return f"{style.paint('tight', 'yellow', 'bold')}  {said}", True
    return f"{style.paint('fits', 'green', 'bold')}  {said}", True


def json_of_estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    """Return an estimate as plain data."""
    if estimate is None:
        return None
    return {
        "params": estimate.num_params,
        "precision": estimate.precision,
        "optimizer": estimate.optimizer,
        "bytes_per_param": {**estimate.per_param, "training": estimate.training_per_param},
        "bytes": {
            **{name: estimate.of(name) for name in CATEGORIES},
            "training_before_activations": estimate.training,
            "inference_before_cache": estimate.inference,
        },
    }


def json_of_memory(
    measured: Measured | None, estimate: Estimate | None, cap: int | None
) -> dict[str, Any]:
    """Return the document; `measured` is null where only an estimate was asked for."""
    there = None
    if measured is not None:
        there = room(measured.found, cap)
    elif cap is not None and estimate is not None:
        there = (estimate.training, cap)
    return document(
        kind="memory",
        name=measured.plan.name if measured is not None else None,
        command=list(measured.plan.argv) if measured is not None else None,
        estimate=json_of_estimate(estimate),
        measured=None
        if measured is None
        else {**measured.found, "training": in_training(measured.found)},
        needed=there[0] if there else None,
        available=there[1] if there else None,
        took_s=measured.seconds if measured is not None else None,
    )
