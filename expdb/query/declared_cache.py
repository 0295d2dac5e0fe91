"""What an entry declares, composed once and kept beside the index until a source of it changes.

A kept experiment holds as long as every file and every variable that it was composed of is what it
was, no config file outside its group came or went, and the versions are the same; else it alone is
composed again. Hydra is loaded only then.

Invariant: the answer is that of composing everything; a damaged or foreign cache is composed anew,
and one that cannot be written costs time only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from expdb.errors import Corrupt
from expdb.query.declared_results import Declaration, Declared, DeclaredRun, Sources
from expdb.query.entry import Entry
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import read_json, write_json

FORMAT: Final = 1
PACKAGES: Final = ("hydra", "omegaconf", "expdb")

Tick = Callable[[int, int], None]


def declaration(
    entry: Entry, folder: Path | None, *, tick: Tick = lambda done, total: None
) -> Declaration:
    """Return what an entry declares.

    Args:
        entry: the config that training composes.
        folder: where what was composed is kept; None keeps nothing.
        tick: told (done, all) while experiments are composed.
    """
    path = None if folder is None else folder / f"declared-{_name(entry)}.json"
    digests = _Digests()
    kept = _Kept() if path is None else _read(path)
    group = kept.group
    if group and kept.about == _about(entry, group) and digests.hold(kept.base):
        names = _names(entry.folder / group)
        rows = {name: row for name, row in kept.rows.items() if name in names}
        valid = {name: row for name, row in rows.items() if digests.hold(row)}
        if len(valid) == len(names):
            return Declaration(entry=entry, group=group, experiments=_decoded(valid))
    else:
        valid = {}
    made = _compose(entry, valid, digests, tick)
    if path is not None:
        _write(path, made)
    return Declaration(
        entry=entry,
        group=made.group,
        experiments=_decoded(made.rows),
        num_composed=made.num_composed,
    )


@dataclass(slots=True, kw_only=True)
class _Kept:
    about: str = ""
    group: str = ""
    base: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    num_composed: int = 0


class _Digests:
    """Content digests of files and variables, each looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def file(self, path: str) -> str | None:
        """Return the SHA-256 of a file; None where it cannot be read."""
        if path not in self._known:
            try:
                self._known[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            except OSError:
                self._known[path] = None
        return self._known[path]

    def variable(self, name: str) -> str | None:
        """Return the SHA-256 of a variable; None where it is not set."""
        value = os.environ.get(name)
        return None if value is None else hashlib.sha256(os.fsencode(value)).hexdigest()

    def of(self, sources: Sources | None) -> dict[str, Any]:
        """Return what `hold` looks at."""
        if sources is None:
            return {}
        return {
            "files": {str(path): self.file(str(path)) for path in sources.files},
            "variables": {name: self.variable(name) for name in sources.variables},
        }

    def hold(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a row was composed of what is there now."""
        files, variables = row.get("files"), row.get("variables")
        if not isinstance(files, dict) or not isinstance(variables, dict):
            return False
        return all(
            digest is not None and self.file(path) == digest for path, digest in files.items()
        ) and all(self.variable(name) == digest for name, digest in variables.items())


def _compose(
    entry: Entry, valid: Mapping[str, dict[str, Any]], digests: _Digests, tick: Tick
) -> _Kept:
    from expdb.query.composed import Config, composer
    from expdb.query.conf import open_conf
    from expdb.query.declaring import declare, sources_of

    with composer(entry) as made:
        conf = open_conf(made)
        base = made.compose()
        sources = sources_of(conf, base) if isinstance(base, Config) else None
        kept = _Kept(about=_about(entry, conf.group), group=conf.group, base=digests.of(sources))
        left = [name for name in conf.files if name not in valid]
        kept.num_composed = len(left)
        for done, name in enumerate(left):
            tick(done, len(left))
            found = declare(conf, name)
            kept.rows[name] = _encoded(found) | digests.of(found.sources)
        tick(len(left), len(left))
        kept.rows |= {name: row for name, row in valid.items() if name in conf.files}
    return kept


def _name(entry: Entry) -> str:
    return hashlib.sha256(os.fsencode(f"{entry.folder}\0{entry.name}")).hexdigest()[:16]


def _about(entry: Entry, group: str) -> str:
    """Return what every kept row hangs on besides its own sources."""
    from importlib.util import find_spec

    versions = []
    for package in PACKAGES:
        # Whose file it is stands for its version: to read that takes longer than all else here.
        found = find_spec(package)
        path = None if found is None else found.origin
        versions.append([path, os.stat(path).st_mtime_ns] if path else [])  # noqa: PTH116
    beside = sorted(name for name in _names(entry.folder) if not name.startswith(f"{group}/"))
    said = json.dumps([FORMAT, str(entry.folder), entry.name, versions, beside])
    return hashlib.sha256(said.encode()).hexdigest()


def _names(folder: Path) -> set[str]:
    """Return the config files below a folder, without their ending."""
    found = set()
    for where, _, names in os.walk(folder):
        beside = os.path.relpath(where, folder)
        for name in names:
            stem, ending = os.path.splitext(name)  # noqa: PTH122 - for thousands of files
            if ending in (".yaml", ".yml"):
                found.add(stem if beside == "." else f"{beside}/{stem}")
    return found


def _read(path: Path) -> _Kept:
    try:
        data = read_json(path)
        if data.get("format") != FORMAT:
            return _Kept()
        text = fields.text(data, "kept")
        if hashlib.sha256(text.encode()).hexdigest() != data.get("sha256"):
            return _Kept()
        return _Kept(**json.loads(text))
    except (FileNotFoundError, NotADirectoryError, Corrupt, Wrong):
        return _Kept()


def _write(path: Path, kept: _Kept) -> None:
    rows = {name: row for name, row in kept.rows.items() if "files" in row}
    text = json.dumps({"about": kept.about, "group": kept.group, "base": kept.base, "rows": rows})
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"format": FORMAT, "sha256": sha256, "kept": text})
    except OSError:
        return  # composed again the next time


def _encoded(found: Declared) -> dict[str, Any]:
    configs = list(dict.fromkeys((run.canonical, run.digest) for run in found.runs))
    place = {config: at for at, config in enumerate(configs)}
    return {
        "fault": found.fault,
        "configs": configs,
        "runs": [
            [
                wanted.variant,
                wanted.seed,
                list(wanted.overrides),
                place[wanted.canonical, wanted.digest],
            ]
            for wanted in found.runs
        ],
        "ignore": list(found.ignore),
        "seed_key": found.seed_key,
        "read_from": dict(found.read_from),
    }


def _decoded(rows: Mapping[str, Mapping[str, Any]]) -> tuple[Declared, ...]:
    return tuple(_declared(name, rows[name]) for name in sorted(rows))


def _declared(name: str, row: Mapping[str, Any]) -> Declared:
    configs: Sequence[Any] = row["configs"]
    return Declared(
        name=name,
        fault=row["fault"],
        runs=tuple(
            DeclaredRun(
                variant=variant,
                seed=seed,
                overrides=tuple(overrides),
                canonical=configs[at][0],
                digest=configs[at][1],
            )
            for variant, seed, overrides, at in row["runs"]
        ),
        ignore=tuple(row["ignore"]),
        seed_key=row["seed_key"],
        read_from=row["read_from"],
    )
