"""`expdb probe throughput`, `loader`, `memory` and `lr`: the script, measured in its loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from expdb.cli import options
from expdb.cli.command import VerbCommand, Wrong
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode

if TYPE_CHECKING:
    from expdb.actions.probe.estimate import Estimate
    from expdb.actions.probe.measure import Measured, ProbePlan

MOST_UPDATES = 100_000
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}


class Amount(click.ParamType[int]):
    """A whole number with a unit: `7e9`, `7B`, `381600`; of bytes also `80GB`."""

    name = "amount"

    def __init__(self, *, of_bytes: bool = False) -> None:
        self._of_bytes = of_bytes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        if isinstance(value, int):
            return value
        number = self._read(value)
        if not 0 < number <= 10**15:
            example = "80GB" if self._of_bytes else "7e9 or 7B"
            self.fail(f"{value!a} is no such number, for instance {example}.", param, ctx)
        return number

    def _read(self, value: Any) -> int:
        """Return the number, 0 where it is none."""
        text = str(value).removesuffix("B") if self._of_bytes else str(value)
        found = re.fullmatch(
            r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(?:e\+?([0-9]{1,2}))? ?([kMGBT]?)", text
        )
        if found is None:
            return 0
        digits, exponent, unit = found.groups()
        return round(float(digits) * 10.0 ** int(exponent or 0) * UNITS[unit])


target = click.argument("target", metavar="RUN|EXP")
overrides = click.argument("overrides", nargs=-1)


def _updates(default: int, help_text: str) -> Callable[[options.F], options.F]:
    return click.option(
        "--updates",
        metavar="N",
        type=options.Whole(1, MOST_UPDATES),
        default=default,
        help=f"{help_text} ({default}).",
    )


def _warm_up(default: int) -> Callable[[options.F], options.F]:
    return click.option(
        "--warm-up",
        metavar="N",
        type=options.Whole(0, MOST_UPDATES),
        default=default,
        help=f"Updates before them that are not looked at ({default}).",
    )


@click.command(cls=VerbCommand)
@target
@overrides
@_updates(50, "Updates that are timed")
@_warm_up(5)
@options.as_json
@click.pass_obj
def throughput(
    context: Context,
    target: str,
    overrides: tuple[str, ...],
    updates: int,
    warm_up: int,
    as_json: bool,
) -> int:
    """Measure tokens a second of a training, and the time of its steps.

    Tokens are those that `update.backward` is given, so padding does not count.
    The device is idle at both ends. Evaluations, checkpoints, monitors, and
    updates in which torch compiles are left out.
    """
    from expdb.report import probes as report

    task = {"kind": "throughput", "updates": updates, "warm_up": warm_up}
    measured = _measured(context, target, overrides, task)
    _print(
        context, as_json, report.json_of_measured(measured),
        report.render_throughput(measured, context.out.style),
    )  # fmt: skip
    return ExitCode.OK


@click.command(cls=VerbCommand)
@target
@overrides
@_updates(20, "Updates, and as many batches as they take, that are timed")
@_warm_up(3)
@options.as_json
@click.pass_obj
def loader(
    context: Context,
    target: str,
    overrides: tuple[str, ...],
    updates: int,
    warm_up: int,
    as_json: bool,
) -> int:
    """Tell whether a training waits for its data or for its compute.

    Updates are timed as they are, then the data alone, then updates on one
    batch that is kept. Exit 1: data-bound.
    """
    from expdb.report import probes as report

    task = {"kind": "loader", "updates": updates, "warm_up": warm_up}
    measured = _measured(context, target, overrides, task)
    _print(
        context, as_json, report.json_of_measured(measured),
        report.render_loader(measured, context.out.style),
    )  # fmt: skip
    if not as_json:
        context.out.next(report.loader_hints(measured))
    is_bound = measured.found["verdict"] == "data-bound"
    return ExitCode.CONDITION_FALSE if is_bound else ExitCode.OK


@click.command(cls=VerbCommand)
@click.argument("target", metavar="[RUN|EXP]", required=False)
@overrides
@click.option("--params", type=Amount(), metavar="N", help="Estimate for N parameters; no script.")
@click.option(
    "--precision",
    type=click.Choice(["fp32", "bf16", "bf16-master", "bf16-master-fp32-grads"]),
    default="fp32",
    help="How weights are kept, with --params (fp32, also for autocast).",
)
@click.option("--optim", metavar="NAME", default="adamw", help="Which optimizer (adamw).")
@click.option(
    "--cap",
    type=Amount(of_bytes=True),
    metavar="SIZE",
    help="What there is: 80GB. Exit 1: over 95 %.",
)
@options.as_json
@click.pass_obj
def memory(
    context: Context,
    target: str | None,
    overrides: tuple[str, ...],
    params: int | None,
    precision: str,
    optim: str,
    cap: int | None,
    as_json: bool,
) -> int:
    """Count what a training holds in memory, by category, beside an estimate.

    With --params nothing is run: so many bytes a parameter, before activations
    (fp32 with AdamW: 16). What inference holds is named apart. With --cap, or
    on a GPU, it says whether that is enough: tight from 90 % on, exit 1 from 95 %.
    """
    from expdb.actions.probe.estimate import estimate
    from expdb.report import probe_memory as report

    if (target is None) == (params is None):
        raise click.UsageError("memory wants RUN|EXP, or --params N instead")
    if target is None:
        assert params is not None
        guess = estimate(params, precision=precision, optimizer=optim)
        needed = (guess.training, cap) if cap is not None else None
        lines = report.render_estimate(guess, context.out.style)
        return _tell(context, as_json, report.json_of_memory(None, guess, cap), lines, needed)
    measured = _measured(context, target, overrides, {"kind": "memory"})
    guess_of = _estimate_of(measured)
    return _tell(
        context, as_json, report.json_of_memory(measured, guess_of, cap),
        report.render_memory(measured, guess_of, context.out.style),
        report.room(measured.found, cap),
    )  # fmt: skip


@click.command(cls=VerbCommand)
@target
@overrides
@click.option(
    "--from", "low", metavar="X", type=options.Positive(), default=1e-7, help="First rate (1e-7)."
)
@click.option(
    "--to", "high", metavar="X", type=options.Positive(), default=1.0, help="Last rate (1)."
)
@click.option(
    "--updates",
    metavar="N",
    type=options.Whole(50, MOST_UPDATES),
    default=200,
    help="Updates from the one to the other (200).",
)
@options.as_json
@click.pass_obj
def lr(
    context: Context,
    target: str,
    overrides: tuple[str, ...],
    low: float,
    high: float,
    updates: int,
    as_json: bool,
) -> int:
    """Find a learning rate: it rises by a factor each update, and the loss is watched.

    The schedule is put aside; rates of groups keep their ratios. The answer is
    where the smoothed loss falls steepest over the logarithm of the rate, not
    where it is lowest. Exit 1: inconclusive.
    """
    from expdb.report import probe_lr as report
    from expdb.report.probes import json_of_measured

    if low >= high:
        raise click.UsageError(f"--from {low:g} is not below --to {high:g}")
    task = {"kind": "lr", "updates": updates, "low": low, "high": high}
    measured = _measured(context, target, overrides, task)
    body = {**json_of_measured(measured), "advice": report.advice_of(measured.found)}
    _print(context, as_json, body, report.render_lr(measured, context.out.style))
    if not as_json:
        context.out.next(report.lr_hints(measured))
    is_found = measured.found["outcome"] == "found"
    return ExitCode.OK if is_found else ExitCode.CONDITION_FALSE


def _measured(
    context: Context, target: str, overrides: tuple[str, ...], task: Mapping[str, Any]
) -> Measured:
    """Run the script that a word names, and return what was measured in it."""
    from expdb.report.probes import begin_lines

    plan = _plan(context, target, overrides)
    if plan.code:
        context.out.warning(plan.code)
    for line in begin_lines(plan, str(task["kind"])):
        context.out.talk(line)
    return _watched(context, plan, task)


def _watched(context: Context, plan: ProbePlan, task: Mapping[str, Any]) -> Measured:
    """Measure, with a line about it on a terminal."""
    from expdb.actions.probe.measure import measure
    from expdb.report.probes import progress_line

    try:
        return measure(plan, task, tell=lambda num: context.out.passing(progress_line(num)))
    finally:
        context.out.passing("")


def _plan(context: Context, target: str, overrides: tuple[str, ...]) -> ProbePlan:
    """Return the command of a declared experiment, else of a run."""
    from expdb.actions.probe.measure import plan_declared, plan_run
    from expdb.errors import NotFound

    declared = context.declared()
    if target in declared:
        return plan_declared(target, declared[target], context.places, overrides)
    try:
        with context.reader(warn_unfinished=False) as reader:
            return plan_run(reader, context.resolve(reader, target), overrides, context.directory)
    except NotFound as error:
        if "=" in target:
            raise Wrong(f"{target!a} is an override, not RUN or EXP") from None
        names = ", ".join(list(declared)[:5])
        raise NotFound(
            error.message, hint=(*error.hints, *([f"declared here: {names}"] if names else []))
        ) from None


def _estimate_of(measured: Measured) -> Estimate | None:
    """Return the estimate of a script's model; None for an optimizer that is not known."""
    from expdb.actions.probe.estimate import estimate, known_optimizer

    found = measured.found
    names = {known_optimizer(str(o["name"]), momentum=o["momentum"]) for o in found["optimizers"]}
    name = names.pop() if len(names) == 1 else None
    kinds = {"float32": "fp32", "bfloat16": "bf16", "float16": "bf16"}
    dtypes = {kinds.get(str(dtype)) for dtype in found["dtypes"]}
    kind = dtypes.pop() if len(dtypes) == 1 else None
    if name is None or kind is None or found["num_trained"] != found["num_params"]:
        return None
    return estimate(int(found["num_params"]), precision=kind, optimizer=name)


def _print(context: Context, as_json: bool, body: dict[str, Any], lines: list[str]) -> None:
    if as_json:
        context.out.json(body)
    else:
        context.out.lines(lines)


def _tell(
    context: Context,
    as_json: bool,
    body: dict[str, Any],
    lines: list[str],
    needed: tuple[int, int] | None,
) -> int:
    """Print, and return whether memory is enough as an exit code."""
    from expdb.report.probe_memory import room_line

    said, is_enough = room_line(*needed, context.out.style) if needed else ("", True)
    _print(context, as_json, body, [*lines, *([said] if said else [])])
    return ExitCode.OK if is_enough else ExitCode.CONDITION_FALSE
