"""Two tabs of text: the code against the parent's, and samples that were logged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.query.patches import CodePatch, patches
from expdb.store.media import read_media
from expdb.text import cells, plain
from expdb_tui.ink import Piece, titled
from expdb_tui.run.facts import Facts
from expdb_tui.run.tab import Tab
from expdb_tui.widgets.lineview import Rows

MOST_TEXTS: Final = 200
MOST_LINES: Final = 200
PATCH_LINES: Final = 20_000


class TextTab(Tab):
    """A tab that reads once and shows rows."""

    KEYS: ClassVar[Sequence[tuple[str, str]]] = (
        ("[ ]", "tab"), ("↑↓", "scroll"), ("d", "compare"), ("C", "control"),
    )  # fmt: skip

    def forget(self) -> None:
        """Hold nothing of another run."""
        self._is_read = False

    def open(self) -> None:
        """Show what was read, or read it."""
        self.screen.show_text().show(self.rows if self._is_read else lambda width, height: [])
        if not self._is_read:
            self.refresh()

    def shown(self) -> None:
        """Show what came."""
        self._is_read = True
        self.screen.show_text().show(self.rows)

    def rows(self, width: int, height: int) -> Rows:
        """Return the rows."""
        return []


class CodeTab(TextTab):
    """The changed files, and the patch."""

    NAME, SHORT = "Code", "Code"
    TEACHES = (
        "The code of this run is not pinned, or it has nothing to be compared with.",
        "git init, then: expdb baseline RUN",
    )

    def forget(self) -> None:
        """Hold no patch of another run."""
        super().forget()
        self._patch: CodePatch | None = None

    def has(self, facts: Facts) -> bool:
        """Tell whether there is code to compare."""
        return facts.run.pin.tree is not None and (facts.parent or facts.baseline) is not None

    def refresh(self) -> None:
        """Read the patch once: pins do not change."""
        if self._patch is not None:
            return
        facts, session = self.facts, self.screen.main.session
        places = [session.directory, session.store.root.parent]

        def take(found: CodePatch) -> None:
            self._patch = found
            self.shown()

        self.read(lambda reader: read_patch(reader, facts, places), take)

    def rows(self, width: int, height: int) -> Rows:
        """Return files and patch."""
        main = self.screen.main
        if self._patch is None:
            return []
        return code_rows(self._patch, width, main.marks.rule, "->" if main.is_ascii else "→")


def read_patch(reader: Reader, facts: Facts, places: Sequence[Path]) -> CodePatch:
    """Return how the code differs from the parent's, or the baseline's."""
    other = facts.parent or facts.baseline
    if other is None:
        raise AssertionError("the tab has no data without another run")
    return patches([reader.run(other), facts.run], places=places, text=True)[0]


def code_rows(patch: CodePatch, width: int, rule: str, arrow: str) -> list[Sequence[Piece]]:
    """Return the files that differ, then the unified diff."""
    first, run = patch.first, patch.run
    pins = f"{(first.pin.pinned or '?')[:7]} {arrow} {(run.pin.pinned or '?')[:7]}"
    num = len(patch.files)
    said = f"  {num} file{'' if num == 1 else 's'}" if num else "  the same"
    title = [(" ", ""), ("Code", "text+bold"), (f"{said}   {plain(first.name)} {pins}", "dim")]
    out: list[Sequence[Piece]] = [titled(title, width - 1, rule)]
    if patch.note:
        return [*out, [(f"  {plain(patch.note)}", "warn")]]
    if not num:
        return [*out, [("  Both runs have the same tree: every file is equal.", "dim")]]
    wide = min(60, max(cells(plain(file.path)) for file in patch.files))
    for file in patch.files:
        name = plain(file.path)
        roles = {"A": "better", "D": "fail", "M": "warn"}
        out.append(
            [
                (f"  {file.status} ", roles.get(file.status, "dim")),
                (name + " " * max(0, wide - cells(name)), "text"),
                (f"  +{file.num_added}" if file.num_added is not None else "  binary", "better"),
                (f" -{file.num_removed}" if file.num_removed is not None else "", "worse"),
            ]
        )
    out.append([])
    lines = patch.text.split("\n")
    out += [_patch_row(line, width, rule) for line in lines[:PATCH_LINES]]
    if len(lines) > PATCH_LINES:
        more = len(lines) - PATCH_LINES
        out.append([(f"  and {more:,} lines more: expdb compare --code", "dim")])
    out += [[(f"  {plain(path)} is too large to be shown", "dim")] for path in patch.left_out]
    return out


def _patch_row(line: str, width: int, rule: str) -> Sequence[Piece]:
    text = plain(line.expandtabs(4))
    if line.startswith("diff --git"):
        name = text.rpartition(" b/")[2]
        return titled([(" ", ""), (name, "text+bold")], width - 1, rule)
    if line.startswith("@@"):
        return [(f"  {text}", "accent")]
    if line.startswith(("+++", "---", "index ", "new file", "deleted file")):
        return [(f"  {text}", "faint")]
    if line.startswith("+"):
        return [(f"  {text}", "better")]
    if line.startswith("-"):
        return [(f"  {text}", "worse")]
    return [(f"  {text}", "dim")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A text that was logged."""

    key: str
    step: int
    text: str


class SamplesTab(TextTab):
    """Texts that were logged, the newest first."""

    NAME, SHORT = "Samples", "Smpl"
    TEACHES = ("No text was logged.", 'run.log_text("sample/fox", text, step=step)')

    def forget(self) -> None:
        """Hold no text of another run."""
        super().forget()
        self._samples: tuple[Sample, ...] = ()

    def has(self, facts: Facts) -> bool:
        """Tell whether a text was logged."""
        return any(key.kind == "text" for key in facts.media.keys)

    def refresh(self) -> None:
        """Read the texts again."""
        run = self.facts.run.id

        def take(found: tuple[Sample, ...]) -> None:
            self._samples = found
            self.shown()

        self.read(lambda reader: read_samples(reader, run), take)

    def rows(self, width: int, height: int) -> Rows:
        """Return the texts."""
        return sample_rows(self._samples, width, self.screen.main.marks.rule)


def read_samples(reader: Reader, run: str) -> tuple[Sample, ...]:
    """Return the texts of a run, the newest first."""
    try:
        table = read_media(
            reader.run_dir(run), "text", columns=["key", "step", "text"], problems=[]
        )
    except ExpdbError:
        return ()
    found = [Sample(**row) for row in table.to_pylist()]
    return tuple(sorted(found, key=lambda one: (-one.step, one.key))[:MOST_TEXTS])


def sample_rows(samples: Sequence[Sample], width: int, rule: str) -> list[Sequence[Piece]]:
    """Return the texts, those of one step together; long lines go on in the next row."""
    out: list[Sequence[Piece]] = []
    for sample in samples:
        title = [(" ", ""), (plain(sample.key), "text+bold"), (f"  step {sample.step:,}", "dim")]
        out.append(titled(title, width - 1, rule))
        lines = sample.text.split("\n")
        for line in lines[:MOST_LINES]:
            parts = wrapped(plain(line.expandtabs(4)), width - 4)
            out += [[("  ", ""), (part, "text")] for part in parts]
        if len(lines) > MOST_LINES:
            out.append([(f"  and {len(lines) - MOST_LINES:,} lines more", "dim")])
        out.append([])
    return out


def wrapped(text: str, width: int) -> list[str]:
    """Return a line in rows of at most `width` cells, broken between words where it can be."""
    width = max(4, width)
    if cells(text) <= width:
        return [text]
    out: list[str] = []
    row = ""
    for word in text.split(" "):
        if row and cells(row) + 1 + cells(word) <= width:
            row = f"{row} {word}"
            continue
        if row:
            out.append(row)
        row = word
        while cells(row) > width:
            cut = _fitting(row, width)
            out.append(cut)
            row = row[len(cut) :]
    return [*out, row]


def _fitting(word: str, width: int) -> str:
    used = 0
    for at, char in enumerate(word):
        used += cells(char)
        if used > width:
            return word[: max(1, at)]
    return word
