"""The click command of a verb: what is wrong with its words is said with the right line.

Invariant: no store is opened here; a hint repeats a word as the shell and the filter need it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Final

import click

from expdb.errors import ExpdbError
from expdb.store.ids import is_id
from expdb.store.runword import STEP

FILTER_WORD: Final = re.compile(r"[\w./-]+")
"""What stands in a filter without quotes."""


class Wrong(click.UsageError):
    """A command line that makes no sense, with what would."""

    def __init__(
        self, message: str, *, hint: str = "", ctx: click.Context | None = None, usage: bool = True
    ) -> None:
        super().__init__(message, ctx=ctx)
        self.hint = hint
        self.usage = usage
        """Whether the usage of the verb is to be said too."""


class VerbCommand(click.Command):
    """One verb."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; a word missing or too many is an error that says what was to be written."""
        ctx.allow_extra_args = True
        try:
            rest = super().parse_args(ctx, args)
        except click.MissingParameter as error:
            if error.param is None:
                raise
            metavar = error.param.make_metavar(ctx)
            raise Wrong(f"{ctx.info_name} wants {metavar}", ctx=ctx) from None
        words = [str(word) for word in ctx.args]
        if words and not ctx.resilient_parsing:
            raise too_many(ctx, words)
        return rest


class Words(click.Choice[str]):
    """A choice that knows what people write in its place."""

    def __init__(self, choices: Sequence[str], *, swaps_with: str = "", steps: bool = False):
        super().__init__(choices)
        self.swaps_with = swaps_with
        """The argument before it, with which it is easily swapped."""
        self.steps = steps
        """Whether a step is easily taken for it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | Any:
        """Return the choice.

        Raises:
            UsageError: it is none.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            hint = self._hint(str(value), ctx) if ctx is not None else ""
            one_of = ", ".join(self.choices)
            raise Wrong(f"{value} is not one of {one_of}", hint=hint, ctx=ctx) from None

    def _hint(self, value: str, ctx: click.Context) -> str:
        before = ctx.params.get(self.swaps_with)
        if before in self.choices:
            return f"{ctx.command_path} {shlex.quote(value)} {before}"
        run = ctx.params.get("run")
        if self.steps and run and STEP.fullmatch(value.removeprefix("@")):
            at = value.removeprefix("@")
            return f"a step stands behind its run: {ctx.command_path} {shlex.quote(f'{run}@{at}')}"
        return ""


def usage(ctx: click.Context) -> str:
    """Return how a verb is written, and where there is more."""
    pieces = " ".join([ctx.command_path, *ctx.command.collect_usage_pieces(ctx)])
    return f"usage: {pieces}       more: {ctx.command_path} --help"


def too_many(ctx: click.Context, words: Sequence[str]) -> click.UsageError:
    """Return the error of words that a verb has no place for, with what may have been meant."""
    many = "one word" if len(words) == 1 else f"{len(words)} words"
    return Wrong(f"{many} too many: {' '.join(words)}", hint=_instead(ctx, words), ctx=ctx)


def _instead(ctx: click.Context, words: Sequence[str]) -> str:
    """Return what may have been meant by words that are too many; empty for no idea."""
    verb = ctx.info_name or ""
    taken = {param.name for param in ctx.command.params}
    said = " ".join(map(shlex.quote, words))
    if "where" in taken:
        metric = ctx.params.get("metric")
        own = [ctx.command_path, *([shlex.quote(metric)] if metric else [])]
        return " ".join([*own, "-w", shlex.quote(as_filter(words))])
    if verb in ("status", "ops"):
        return f"expdb ls -w {shlex.quote(as_filter(words))}"
    if "statement" in taken:
        return f"quote it: {ctx.command_path} '{ctx.params['statement']} ...'"
    run = ctx.params.get("run") or ""
    if run and len(words) == 1 and STEP.fullmatch(words[0].removeprefix("@")):
        at = shlex.quote(f"{run}@{words[0].removeprefix('@')}")
        return f"a step stands behind its run: {ctx.command_path} {at}"
    if verb == "resume" and all("=" in word for word in words):
        return f"with another setting it is a new run: expdb rerun {shlex.quote(run)} {said}"
    if run and verb in ("show", "baseline"):
        return f"several runs: expdb compare {shlex.quote(run)} {said}"
    return ""


def as_filter(words: Sequence[str]) -> str:
    """Return the filter that words stand for: themselves if they are one, else their runs."""
    from expdb.query.filters.parser import parse

    text = " ".join(words)
    if not any("+" in word for word in words):  # exp01+optim.lr=0.01 is a name
        try:
            parse(text)
        except ExpdbError:
            pass
        else:
            return text
    name = "name" if any("+" in word for word in words) else "exp"
    if all(map(is_id, words)):
        name = "run"
    values = [in_filter(word) for word in words]
    return f"{name} = {values[0]}" if len(values) == 1 else f"{name} in ({', '.join(values)})"


def in_filter(word: str) -> str:
    """Return a value as a filter takes it."""
    from expdb.query.filters.parser import KEYWORDS

    if FILTER_WORD.fullmatch(word) and word.lower() not in KEYWORDS:
        return word
    return '"' + word.replace('"', '""') + '"'
