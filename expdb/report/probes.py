"""What `expdb probe throughput` and `loader` found, as lines and as JSON."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from expdb.report.json import document
from expdb.report.style import Style
from expdb.signs import Colour
from expdb.text import duration, plain, rate

if TYPE_CHECKING:
    from expdb.actions.probe.measure import Measured, ProbePlan

CELLS: Final = 11
LOOKS: Final[dict[str, Colour]] = {
    "data-bound": "red",
    "compute-bound": "green",
    "balanced": "yellow",
}
WAITS: Final = 0.1
"""A larger share of a step spent waiting for data is worth a change."""


def begin_lines(plan: ProbePlan, kind: str) -> list[str]:
    """Return what is about to be done."""
    return [
        f"{'probe':<{CELLS}}{kind} of {plain(plan.name)}, in this work tree; nothing is recorded",
        f"{'runs':<{CELLS}}{plain(shlex.join(plan.argv))}",
    ]


def progress_line(num_updates: int | None) -> str:
    """Return how far a probe is."""
    return "starting the script" if num_updates is None else f"measuring  update {num_updates:,}"


def row(name: str, text: str) -> str:
    """Return one line of facts."""
    return f"  {name:<{CELLS}}{text}"


def render_throughput(measured: Measured, style: Style) -> list[str]:
    """Return the pace of the steps, and tokens a second."""
    found = measured.found
    each = found["tokens"] / found["updates"]
    compiled = int(found["updates_that_compiled"])
    left_out = ["evaluations, checkpoints, monitors"]
    if compiled:
        left_out.append(f"{compiled} update{'s' * (compiled > 1)} in which torch compiled")
    timed = f"{found['updates']} updates after {found['warm_up']} of warm-up"
    return [
        row("step", f"{ms(found['median_s'])} median, {ms(found['p95_s'])} p95; {timed}"),
        row("tokens", f"{rate(each)} an update, padding left out"),
        row("waiting", f"{share(found['wait_share'])} of the time, for data"),
        row("left out", ", ".join(left_out)),
        row("took", duration(measured.seconds)),
        "",
        f"{style.paint(rate(found['tokens_per_s']), 'bold')} tokens/s  {_where(measured)}",
    ]


def render_loader(measured: Measured, style: Style) -> list[str]:
    """Return what data and compute take, alone and together, and which of them a step waits for."""
    found = measured.found
    workers = f"{found['workers']} worker{'s' * (found['workers'] != 1)}"
    word = str(found["verdict"])
    return [
        row("together", f"{ms(found['step_s'])} a step, {share(found['wait_share'])} of it waiting"
                        " for data"),
        row("data", f"{ms(found['data_s'])} a step alone; a batch {ms(found['batch_s'])}, p95"
                    f" {ms(found['batch_p95_s'])}, {plain(str(found['loader']))}, {workers}"),
        row("compute", f"{ms(found['compute_s'])} a step alone, on one batch that is kept"),
        row("took", duration(measured.seconds)),
        "",
        f"{style.paint(word, LOOKS[word], 'bold')}  {_where(measured)}: a step takes"
        f" {ms(found['compute_s'])} of compute and {ms(found['data_s'])} of data",
    ]  # fmt: skip


def loader_hints(measured: Measured) -> list[tuple[str, str]]:
    """Return what would make the loader keep up, as far as the measured times say."""
    found, wanted = measured.found, measured.found["suggested"]
    if found["wait_share"] <= WAITS and found["verdict"] != "data-bound":
        return [("hint", "the loader keeps up: more workers would change nothing")]
    cost = f"{ms(found['data_s'])} of data for {ms(found['compute_s'])} of compute"
    needed = f"{wanted['needed']} worker{'s' * (wanted['needed'] != 1)}"
    if not wanted["enough"]:
        there = f"{found['cores']} cores give {wanted['possible']}, more only where they wait"
        advice = "prepare the data ahead (tokenise once, memory-map)"
        return [("hint", f"{cost} would take {needed}; {there} for a disk: {advice}")]
    options = ", ".join(
        f"{name}={wanted[name]}"
        for name in ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory")
        if name in wanted
    )
    if not found["is_torch"]:
        own = plain(str(found["loader"]))
        return [("hint", f"{cost}: a DataLoader with {needed} would keep up; {own} has none")]
    return [
        ("hint", f"{cost}: {needed} keep up, unless they slow compute down; then measure again"),
        ("try", f"DataLoader(..., {options})"),
    ]


def json_of_measured(measured: Measured) -> dict[str, Any]:
    """Return what was measured as a document."""
    plan = measured.plan
    return document(
        name=plan.name, command=list(plan.argv), took_s=measured.seconds, **measured.found
    )


def ms(seconds: float) -> str:
    """Return a short time in milliseconds with three digits, a longer one as a duration."""
    value = 1000.0 * seconds
    if value >= 9_995:
        return duration(seconds)
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f} ms"


def share(value: float) -> str:
    """Return a share of 1 as percent: whole from 10 on."""
    percent = 100.0 * value
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %"


def _where(measured: Measured) -> str:
    return f"{plain(measured.plan.name)} on {plain(str(measured.found['device']))}"
