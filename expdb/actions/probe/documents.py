"""Documents of text files, one at a time.

    *.jsonl      a line is a document: the text of its field, else all texts in it
    other files  blocks between blank lines are documents; without blank lines every line is one
    a folder     all files in it, by name

Invariant: a file is read from begin to end, a document in memory at a time, and never written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import BadInput
from expdb.store.files import reason
from expdb.text import plain

FIELDS = ("text", "content", "document")
"""What a text is called in lines of JSON, unless told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One text."""

    file: Path
    number: int
    """From 1: of the line in JSON lines, of the document elsewhere."""
    text: str

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.file.name}:{self.number}"


def files_of(paths: Sequence[str], *, here: Path, what: str) -> list[Path]:
    """Return the files that paths name, each once.

    Raises:
        BadInput: one does not exist, or has no file in it.
    """
    found: dict[Path, None] = {}
    for text in paths:
        path = given(text, here)
        if os.path.isdir(path):  # noqa: PTH112 - Path raises at a name that no file can have
            inside = sorted(one for one in path.rglob("*") if one.is_file())
            if not inside:
                raise BadInput(f"{what} {plain(text)} is a folder without a file")
            found.update(dict.fromkeys(inside))
        elif os.path.isfile(path):  # noqa: PTH113 - as above
            found[path] = None
        else:
            raise BadInput(f"{what} {plain(text)} is neither a file nor a folder")
    return list(found)


def given(text: str, here: Path) -> Path:
    """Return the path that a word means, from a folder."""
    return here / os.path.expanduser(text)  # noqa: PTH111 - Path raises where there is no such user


def documents(files: Sequence[Path], *, field: str | None = None) -> Iterator[Document]:
    """Yield the documents of files, in order; those without a character are left out.

    Raises:
        BadInput: a file cannot be read, is no UTF-8 text, or a line of it is no JSON object or
            lacks the field.
    """
    for file in files:
        try:
            made = _json_lines(file, field) if file.suffix == ".jsonl" else _blocks(file)
            yield from (one for one in made if one.text.strip())
        except OSError as error:
            raise BadInput(f"{plain(os.fspath(file))} cannot be read: {reason(error)}") from error
        except UnicodeDecodeError as error:
            raise BadInput(
                f"{plain(os.fspath(file))} is no UTF-8 text", hint="text files and JSON lines"
            ) from error


def json_lines(file: Path) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Yield number, object and text of the lines that are not blank, without their ends.

    Raises:
        BadInput: a line is no JSON object.
        OSError, UnicodeDecodeError: the file cannot be read, or is no text.
    """
    with file.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                data = json.loads(line)
            except UnicodeDecodeError:
                raise
            except (ValueError, RecursionError) as error:
                raise BadInput(f"{plain(file.name)} line {number} is no JSON") from error
            if not isinstance(data, dict):
                raise BadInput(f"{plain(file.name)} line {number} is no JSON object")
            yield number, data, line.removesuffix("\n")


def _json_lines(file: Path, field: str | None) -> Iterator[Document]:
    for number, data, _line in json_lines(file):
        text = _text_of(data, field)
        if text is None:
            has = ", ".join(plain(str(key)) for key in list(data)[:8])
            raise BadInput(
                f"{plain(file.name)} line {number} has no text {plain(field or '')}".rstrip(),
                hint=f"it has {has}; name one: --field NAME",
            )
        yield Document(file=file, number=number, text=text)


def _text_of(data: dict[str, Any], field: str | None) -> str | None:
    if field is not None:
        found = data.get(field)
        return found if isinstance(found, str) else None
    for name in FIELDS:
        if isinstance(data.get(name), str):
            return str(data[name])
    texts = [value for value in data.values() if isinstance(value, str)]
    return "\n".join(texts) if texts else None


def _blocks(file: Path) -> Iterator[Document]:
    has_blank = _has_blank(file)
    number, block = 0, list[str]()
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                block.append(line)
                if has_blank:
                    continue
            if block:
                number += 1
                yield _block(file, number, block)
                block = []
    if block:
        yield _block(file, number + 1, block)


def _block(file: Path, number: int, lines: list[str]) -> Document:
    return Document(file=file, number=number, text="".join(lines))


def _has_blank(file: Path) -> bool:
    """Tell whether a blank line stands between two others."""
    blank_after_text = False
    has_text = False
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                if blank_after_text:
                    return True
                has_text = True
            else:
                blank_after_text = has_text
    return False
