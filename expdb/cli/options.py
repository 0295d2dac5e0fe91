"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
MAX_ROWS = 10**12
"""More rows than any list has; what goes beyond 64 bits is refused here."""


class Whole(click.IntRange):
    """A whole number in the digits 0 to 9; Python reads `1_0` and digits of other scripts too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,40}", value):
            self.fail(f"{value!a} is not a whole number.", param, ctx)
        return super().convert(value, param, ctx)


class Seconds(click.FloatRange):
    """A number of seconds in the digits 0 to 9."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds."""
        if isinstance(value, str) and not re.fullmatch(r"\+?[0-9]{1,20}(\.[0-9]{1,20})?", value):
            self.fail(f"{value!a} is not a number of seconds.", param, ctx)
        return super().convert(value, param, ctx)


class Positive(click.FloatRange):
    """A number above 0 in the digits 0 to 9: `0.5`, `1e-3`."""

    def __init__(self, *, zero: bool = False) -> None:
        super().__init__(min=0, min_open=not zero, max=1e6)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        if isinstance(value, str) and not re.fullmatch(
            r"\+?[0-9]{1,20}(\.[0-9]{0,20})?(e[+-]?[0-9]{1,3})?", value
        ):
            self.fail(f"{value!a} is not a number above 0.", param, ctx)
        return super().convert(value, param, ctx)


class FilePath(click.Path):
    """A path that somebody may have made: click itself fails at a zero byte."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if isinstance(value, str) and "\0" in value:
            self.fail(f"{value!a} is no path.", param, ctx)
        return super().convert(value, param, ctx)


limit = click.option(
    "-n",
    "limit",
    metavar="N",
    type=Whole(1, MAX_ROWS),
    default=50,
    help="Rows at most (50).",
)


def quiet_as(what: str) -> Callable[[F], F]:
    """Return the option -q of a verb that then prints `what` and nothing else."""
    return click.option("-q", "--quiet", is_flag=True, help=f"Only {what}.")


quiet = quiet_as("ids, one a line")
quiet_id = quiet_as("the id of the run")
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
all_rows = click.option("--all", "all_rows", is_flag=True, help="Everything, also what is equal.")
where = click.option(
    "-w",
    "--where",
    "where",
    metavar="EXPR",
    multiple=True,
    help="Only runs that the filter selects; again: and.",
)
since = click.option("--since", metavar="2d|DATE", help="Only runs begun since then.")
study = click.option("--study", metavar="S", help="Only runs of the study S.")
as_csv = click.option("--csv", "as_csv", is_flag=True, help="Rows as CSV.")
as_md = click.option("--md", "as_md", is_flag=True, help="A Markdown table.")
as_jsonl = click.option("--jsonl", "as_jsonl", is_flag=True, help="One JSON document a line.")
over = click.option(
    "--over",
    type=click.Choice(["seed"]),
    help="Means over seeds: runs of one experiment, variant and config are one row.",
)


def at_most_one(**asked: bool) -> None:
    """Refuse two kinds of output at once.

    Raises:
        click.UsageError: more than one is asked for.
    """
    names = [f"--{name}" for name, is_asked in asked.items() if is_asked]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names)} are two kinds of output: take one")
