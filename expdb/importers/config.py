"""The config of a run that no config library composed: what a person and the file say of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from expdb.digest import Secret
from expdb.errors import BadInput
from expdb.importers.json_ import parsed
from expdb.redact import is_secret_key
from expdb.text import plain

SEED_IN_NAME: Final = re.compile(
    r"(?P<rest>.*?)[-_. ]*seed[-_=. ]?(?P<seed>[0-9]{1,18})", re.IGNORECASE
)
INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]{0,999})")
SUFFIXES: Final = (".gz", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".log", ".txt")


def assigned(words: Sequence[str]) -> dict[str, Any]:
    """Return the nested config of words `optim.lr=1e-3`.

    Raises:
        BadInput: a word has no `=` or an empty name, or a key is given twice, or is both a value
            and a mapping.
    """
    out: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        names = key.split(".")
        if not equals or not all(names):
            raise BadInput(f"--config {plain(word)} is not of the form key=value")
        node = out
        for name in names[:-1]:
            node = node.setdefault(name, {})
            if not isinstance(node, dict):
                raise BadInput(f"--config {plain(key)} stands below a value")
        if isinstance(node.get(names[-1]), dict):
            raise BadInput(f"--config {plain(key)} has keys below it")
        if names[-1] in node:
            raise BadInput(f"--config {plain(key)} is given twice")
        node[names[-1]] = value_of(text)
    return out


def value_of(text: str) -> Any:
    """Return the value that a text stands for: as JSON has it, `None` and `00123` stay text.

    Source: YAML 1.2, core schema, of which this is the part that JSON shares.
    """
    if INTEGER.fullmatch(text):
        return int(text)
    try:
        found = parsed(text, "--config", constant=_no_constant)
    except (ValueError, RecursionError):
        return _number(text)
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _number(text: str) -> Any:
    if text in (".inf", "-.inf", ".nan"):
        return float(text.replace(".", ""))
    if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+|[-+]?(\d+\.\d*|\.\d+)", text, re.ASCII):
        return float(text) if not re.match(r"[-+]?0\d", text) else text
    return text


def without_secrets(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the config with a marker for each text under the name of a secret."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(value, Mapping):
            out[str(name)] = without_secrets(value, path)
        else:
            out[str(name)] = Secret() if isinstance(value, str) and is_secret_key(path) else value
    return out


def split_name(name: str) -> tuple[str, int | None]:
    """Return the experiment and the seed that a file's name says: `b1090-seed-4.log` is of both."""
    stem = name
    while stem.lower().endswith(SUFFIXES) and stem.rpartition(".")[0]:
        stem = stem.rpartition(".")[0]
    found = SEED_IN_NAME.fullmatch(stem)
    if found is None:
        return stem, None
    return found["rest"] or stem, int(found["seed"])
