"""Tables as they are stored: names of columns, and rows of plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from expdb.errors import BadInput

Cell = None | bool | int | float | str


def as_table(rows: Any, columns: Any) -> tuple[list[str], list[list[Any]]]:
    """Return the names of the columns and the rows.

    Taken: rows as mappings (a name that a row lacks is None there), rows as sequences with the
    names in `columns`, a mapping of columns (in either argument), a pyarrow table or a data frame.

    Raises:
        BadInput: it is none of these, or a cell is no plain value.
    """
    if columns is None and hasattr(rows, "to_pydict"):
        rows = rows.to_pydict()
    elif columns is None and hasattr(rows, "to_dict"):
        rows = rows.to_dict("list")
    if rows is None:
        rows, columns = columns, None
    if isinstance(rows, Mapping):
        return _of_columns(rows)
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes)):
        raise BadInput(
            f"the rows of a table are {type(rows).__name__}",
            hint="give rows as mappings, rows and the names of columns, or columns by name",
        )
    found = list(rows)
    if columns is None:
        return _of_mappings(found)
    names = [_name(name) for name in columns]
    for number, row in enumerate(found):
        if not isinstance(row, Sequence) and not hasattr(row, "__len__"):
            raise BadInput(f"row {number} of a table is {type(row).__name__}, not a list of values")
        if isinstance(row, (str, bytes, Mapping)) or len(row) != len(names):
            what = f"{len(row)} values" if not isinstance(row, (str, bytes)) else "text"
            raise BadInput(f"row {number} of a table is {what}, and there are {len(names)} columns")
    return _checked(names, [list(row) for row in found])


def _of_mappings(rows: list[Any]) -> tuple[list[str], list[list[Any]]]:
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise BadInput(
                f"row {number} of a table is {type(row).__name__}, not a mapping",
                hint="rows that are lists need the names in columns=[...]",
            )
        names.update(dict.fromkeys(_name(name) for name in row))
    return _checked(list(names), [[row.get(name) for name in names] for row in rows])


def _of_columns(columns: Mapping[Any, Any]) -> tuple[list[str], list[list[Any]]]:
    names = [_name(name) for name in columns]
    lists: list[list[Any]] = []
    for name, values in columns.items():
        if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
            raise BadInput(f"the column {name!r:.60} of a table is {type(values).__name__}")
        lists.append(list(values))
    sizes = {len(values) for values in lists}
    if len(sizes) > 1:
        said = ", ".join(
            f"{name!r:.30} {len(values)}" for name, values in zip(names, lists, strict=True)
        )
        raise BadInput(f"the columns of a table are not equally long: {said[:200]}")
    return _checked(names, [list(row) for row in zip(*lists, strict=True)])


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise BadInput(f"the name of a column is {name!r:.60}, not text")
    return _text(name)


def _checked(names: list[str], rows: list[list[Any]]) -> tuple[list[str], list[list[Any]]]:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"the column {twice!r:.60} of a table is there twice")
    return names, [
        [_cell(value, name, number) for name, value in zip(names, row, strict=True)]
        for number, row in enumerate(rows)
    ]


def _cell(value: Any, column: str, row: int) -> Cell:
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    item = getattr(value, "item", None)
    if callable(item):
        try:
            found = item()
        except (RuntimeError, TypeError, ValueError):
            found = value
        if found is None or isinstance(found, (bool, int, float, str)):
            return _cell(found, column, row)
    raise BadInput(f"column {column!r:.60}, row {row} of a table is {type(value).__name__}")


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
