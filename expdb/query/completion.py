"""The names that a shell completes, read from the folders of a store alone.

Invariant: no database is opened and no run is read but for what was asked of it, so that 10,000
runs cost one look at their folders. What cannot be read is left out; nothing here raises.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from expdb.store.ids import PATTERN
from expdb.store.layout import RunLayout, StoreLayout, decode_name

KEYWORDS: Final = ("HEAD", "best")
SELECTORS: Final = ("prev", "parent", "best", "all")
STEP_WORDS: Final = ("best", "last")
RUN: Final = re.compile(f"run=({PATTERN.pattern})")
CHECKPOINT: Final = re.compile(r"step=(\d{1,18})")
OP: Final = re.compile(rf"\d+-({PATTERN.pattern})\.json")
MIN_PREFIX: Final = 4
FEW_RUNS: Final = 50
"""So many ids are offered before any letter of one is typed."""
NEWEST: Final = 8
"""So many of the newest runs are opened for what only their files say."""
MAX_NAMED: Final = 200
"""So many runs of one experiment are opened for their names."""


class Names:
    """The names in one store."""

    def __init__(self, root: Path) -> None:
        self._layout = StoreLayout(root)
        self._root = root

    def runs(self, typed: str) -> list[str]:
        """Return the RUNs that begin with `typed`: words, and behind one its selectors or steps."""
        word, at, step = typed.rpartition("@")
        if at and word:
            steps = [*STEP_WORDS, *map(str, self._steps(word.split(":")[0]))]
            return [f"{word}@{one}" for one in steps if one.startswith(step)]
        word, colon, selector = typed.rpartition(":")
        if colon and word:
            seeds = (f"s{seed}" for seed in self._seeds(word.split(":")[0]))
            return [f"{word}:{one}" for one in (*seeds, *SELECTORS) if one.startswith(selector)]
        experiments = self.experiments()
        found = [*KEYWORDS, *self.refs(), *experiments, *self._variants(typed, experiments)]
        ids = self._ids(typed)
        found += ids if typed or len(ids) <= FEW_RUNS else []
        return [name for name in dict.fromkeys(found) if name.startswith(typed)]

    def experiments(self) -> list[str]:
        """Return the experiments that have runs, sorted."""
        return sorted(filter(None, map(self._experiment, self._folders())))

    def refs(self) -> list[str]:
        """Return the refs and tags, sorted."""
        found = []
        for name in _names(self._layout.refs):
            if name.endswith(".json") and not name.startswith("."):
                decoded = decode_name(name.removesuffix(".json"))
                decoded = decoded or _text(_json(self._layout.refs / name), "name")
                found += [decoded] if decoded else []
        return sorted(found)

    def metrics(self) -> list[str]:
        """Return the metrics of the newest runs, sorted."""
        folders = _newest_first(self._folders())
        runs = _newest_first(
            [f"{folder}/{name}" for folder in folders[:2] for name in _names(folder)]
        )
        found: set[str] = set()
        for run in runs[:NEWEST]:
            series = _json(RunLayout(Path(run)).series_json).get("series")
            found.update(series if isinstance(series, dict) else ())
        return sorted(found)

    def remotes(self) -> list[str]:
        """Return the names of the remotes, sorted."""
        found = _json(self._layout.meta / "remotes.json").get("remotes")
        return sorted(found) if isinstance(found, dict) else []

    def ops(self) -> list[str]:
        """Return the ids of the ops of the newest month, the newest first."""
        months = sorted(_names(self._layout.ops))
        names = sorted(_names(self._layout.ops / months[-1]), reverse=True) if months else []
        return list(dict.fromkeys(match[1] for match in map(OP.fullmatch, names) if match))

    def _folders(self) -> list[str]:
        """Return the folders of the experiments."""
        names = _names(self._root)
        return [f"{self._root}/{name}" for name in names if name.startswith("exp=")]

    def _experiment(self, folder: str) -> str | None:
        """Return the true name of an experiment: of a long one only its runs know it."""
        decoded = decode_name(os.path.basename(folder).removeprefix("exp="))  # noqa: PTH119
        if decoded is not None:
            return decoded
        for run in _names(folder)[:1]:
            return _text(_json(Path(folder) / run / "run.json"), "experiment")
        return None

    def _ids(self, typed: str) -> list[str]:
        prefix = f"run={typed}"
        names = (name for folder in self._folders() for name in _names(folder))
        found = (RUN.fullmatch(name) for name in names if name.startswith(prefix))
        return sorted(match[1] for match in found if match)

    def _variants(self, typed: str, experiments: Iterable[str]) -> list[str]:
        """Return the names with overrides, of the experiment that is typed in front of them."""
        if "+" not in typed:
            return []
        wanted = {name for name in experiments if typed.startswith(f"{name}+")}
        found: dict[str, None] = {}
        for folder in self._folders():
            if (name := self._experiment(folder)) in wanted:
                for run in _newest_first([f"{folder}/{one}" for one in _names(folder)])[:MAX_NAMED]:
                    variant = _text(_json(Path(run) / "run.json"), "variant")
                    if variant:
                        found[f"{name}{variant}"] = None
        return sorted(found)

    def _named(self, word: str) -> list[str]:
        """Return the folders of runs that a word may mean, the newest first, not many."""
        ref = _text(_json(self._layout.ref(word)), "run") if word.isprintable() and word else None
        found: list[str] = []
        for folder in self._folders():
            names = _names(folder)
            if ref is None and self._experiment(folder) == word.split("+")[0]:
                return _newest_first(f"{folder}/{name}" for name in names)[:NEWEST]
            if len(ref or word) >= MIN_PREFIX:
                prefix = f"run={ref or word}"
                found += [f"{folder}/{name}" for name in names if name.startswith(prefix)]
        return found[:NEWEST]

    def _steps(self, word: str) -> list[int]:
        """Return the checkpoints of the runs that a word may mean, the last first."""
        found = {
            int(match[1])
            for run in self._named(word)
            for name in _names(f"{run}/checkpoints")
            if (match := CHECKPOINT.fullmatch(name))
        }
        return sorted(found, reverse=True)

    def _seeds(self, word: str) -> list[int]:
        seeds = {_json(Path(run) / "run.json").get("seed") for run in self._named(word)}
        return sorted(seed for seed in seeds if isinstance(seed, int))


def _names(folder: str | Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names only, for 10,000 runs
    except OSError:
        return []


def _newest_first(folders: Iterable[str]) -> list[str]:
    """Return folders by the time of their last change."""
    timed: list[tuple[int, str]] = []
    for folder in folders:
        try:
            timed.append((os.stat(folder).st_mtime_ns, folder))  # noqa: PTH116 - many at once
        except OSError:
            continue
    return [folder for _, folder in sorted(timed, reverse=True)]


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(data: dict[str, Any], key: str) -> str | None:
    found = data.get(key)
    return found if isinstance(found, str) else None
