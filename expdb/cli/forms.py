"""The forms in which a list can be printed: which one is asked for, and printing it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from expdb.cli import options
from expdb.cli.output import Output

Form = Literal["text", "json", "csv", "md", "jsonl", "quiet"]
ORDER: tuple[Form, ...] = ("json", "csv", "md", "jsonl", "quiet")


def form_of(*, quiet: bool, **asked: bool) -> Form:
    """Return the form that flags ask for, else `text`; `quiet` gives way to any other.

    Raises:
        click.UsageError: two of the others are asked for.
    """
    options.at_most_one(**asked)
    return next((form for form in ORDER if asked.get(form) or (form == "quiet" and quiet)), "text")


def say_rest(
    out: Output, form: Form, num_shown: int, num_all: int, limit: int, what: str, fewer: str = ""
) -> None:
    """Say that a list for people is not whole, and which `-n` shows more of it."""
    if form in ("text", "md") and num_shown < num_all:
        more = min(num_all, limit * 4)
        out.hint(f"{num_shown:,} of {num_all:,} {what}; more: -n {more}{fewer}")


class Forms(NamedTuple):
    """One list in every form but its text; only the one that is asked for is made."""

    document: Callable[[], Mapping[str, Any]]
    table: Callable[[], tuple[Sequence[str], Iterable[Sequence[Any]]]]
    """Column names and rows, for CSV."""
    markdown: Callable[[], Sequence[str]]
    records: Callable[[], Iterable[Mapping[str, Any]]]
    """One JSON document a row."""
    ids: Callable[[], Iterable[str]]

    def print(self, out: Output, form: Form) -> bool:
        """Print one form; False for `text`, which each verb draws itself."""
        from expdb.report import rows_out

        match form:
            case "json":
                out.json(self.document())
            case "csv":
                out.text(rows_out.write_csv(*self.table()))
            case "md":
                out.lines(list(self.markdown()))
            case "jsonl":
                out.text(rows_out.jsonl(self.records()))
            case "quiet":
                out.lines(list(self.ids()))
            case "text":
                return False
        return True
