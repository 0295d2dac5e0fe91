"""What `expdb probe data` found, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from expdb.report.json import document
from expdb.report.probes import row
from expdb.report.style import Style
from expdb.text import count, cut_end, plain, size

if TYPE_CHECKING:
    from expdb.actions.probe.declared_data import DeclaredData
    from expdb.actions.probe.overlap import Overlap
    from expdb.actions.probe.split import Split

WORDS: Final = 60


def render_declared(data: Sequence[DeclaredData]) -> list[str]:
    """Return the data that a run says it read."""
    lines = []
    for one in data:
        length = f", {size(one.num_bytes)}" if one.num_bytes is not None else ""
        there = (
            f"the same file is here: {plain(one.file.name)}" if one.file else "no such file here"
        )
        lines.append(
            row(plain(one.role), f"{plain(one.name)}{length}, {plain(one.digest[:23])}; {there}")
        )
    return lines


def render_overlap(found: Overlap, style: Style) -> list[str]:
    """Return how many validation documents are in training text, with some of them."""
    short = f"; {count(found.num_short)} shorter than {found.n} words, looked for whole"
    lines = [
        row("train", f"{count(found.num_train)} documents"),
        row("val", f"{count(found.num_val)} documents{short if found.num_short else ''}"),
        row("exact", f"{count(found.num_exact)}, word by word"),
        row(f"{found.n} words", f"{count(found.num_words)} more, with a run of them"),
    ]
    for one in found.examples:
        words = cut_end(plain(one.words), WORDS, style.signs.ellipsis)
        lines.append(row("", f"{plain(one.val)} is in {plain(one.train)} ({one.kind}): {words}"))
    more = found.num_found - len(found.examples)
    if more > 0 and found.examples:
        lines.append(row("", f"{count(more)} more"))
    whole = f"of {count(found.num_val)} validation documents"
    if not found.num_found:
        said = style.paint("clean", "green", "bold")
        return [*lines, "", f"{said}  none {whole} is in training text"]
    said = style.paint(f"{100 * found.share:.3g} %", "red", "bold")
    verb = "is" if found.num_found == 1 else "are"
    return [*lines, "", f"{said}  {count(found.num_found)} {whole} {verb} in training text"]


def render_split(made: Split, style: Style) -> list[str]:
    """Return both sides of a split, stratum by stratum."""
    lines = []
    if made.by is not None:
        cells = max(len("stratum"), *(len(plain(one.name)) for one in made.strata))
        lines.append(f"  {plain(made.by):<{cells}}{'items':>10}{'val':>10}{'share':>10}")
        lines += [
            f"  {plain(one.name):<{cells}}{count(one.num):>10}{count(one.num_val):>10}"
            f"{100 * one.num_val / one.num:>8.1f} %"
            for one in made.strata
        ]
        lines.append("")
    head = style.paint("split", "green", "bold")
    kept = f"seed {made.seed}, kept in split.json"
    whole = f"{count(made.num - made.num_val)} train and {count(made.num_val)} val items"
    return [*lines, f"{head}  {plain(made.file.name)}: {whole}, {kept}"]


def json_of_overlap(found: Overlap | None) -> dict[str, Any] | None:
    """Return an overlap as plain data."""
    if found is None:
        return None
    return {
        "n": found.n,
        "train_documents": found.num_train,
        "val_documents": found.num_val,
        "found": found.num_found,
        "exact": found.num_exact,
        "words": found.num_words,
        "short": found.num_short,
        "share": found.share,
        "examples": [
            {"val": one.val, "train": one.train, "kind": one.kind, "words": one.words}
            for one in found.examples
        ],
    }


def json_of_data(
    name: str | None, data: Sequence[DeclaredData], found: Overlap | None
) -> dict[str, Any]:
    """Return the document of a check."""
    return document(
        kind="data",
        name=name,
        declared=[
            {
                "role": one.role,
                "name": one.name,
                "digest": one.digest,
                "bytes": one.num_bytes,
                "is_here": one.file is not None,
            }
            for one in data
        ],
        overlap=json_of_overlap(found),
    )


def json_of_split(made: Split) -> dict[str, Any]:
    """Return the document of a split."""
    return document(kind="split", **made.record())
