"""Which config a training script composes: its folder and the name of its primary file.

The key `entry` of a file in `conf/expdb` says which script; else the newest run says which script
and which config it was; else `train.py`, else `conf/train.yaml`.

Invariant: a script is read, never run or imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from expdb.errors import ExpdbError, NotFound
from expdb.query.composed_files import Unreadable, scalar_in
from expdb.store.layout import RunLayout
from expdb.store.runs import read_identity, run_dirs
from expdb.store.store import Store
from expdb.text import plain

SCRIPT = "train.py"
NAME_IT = "write `entry: SCRIPT` into a file of conf/expdb, or start it once by hand"
FOLDER, NAME, OURS = "conf", "train", "expdb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The primary config of a script."""

    folder: Path
    """Absolute."""
    name: str
    """Without `.yaml`."""
    script: str = ""
    """The script whose config it is, relative to where it is started; empty where none is known."""
    is_asked: bool = False
    """The script takes another one unless it is told: `--config-name`."""

    @property
    def path(self) -> Path:
        """The primary file."""
        return self.folder / f"{self.name}.yaml"

    @property
    def fault(self) -> str:
        """Why nothing can be trained that it declares; empty where a script is known."""
        return "" if self.script else f"no script is known that trains {plain(self.path.name)}"


def find_entry(places: Sequence[Path], store: Store | None = None) -> Entry:
    """Return the config that training composes; `places` are the folders to look in, in order.

    Raises:
        NotFound: there is none.
    """
    for entry in _candidates(places, store):
        if entry.path.is_file():
            return entry
    raise NotFound(
        f"no {FOLDER}/{NAME}.yaml here",
        hint=f"go to the folder of {SCRIPT}, or: expdb -C DIR doctor --conf",
    )


def _candidates(places: Sequence[Path], store: Store | None) -> Iterator[Entry]:
    for place in places:
        for script in declared_scripts(place):
            found = hydra_main(place / script)
            if found is not None and found[1] is not None:
                yield Entry(folder=found[0], name=found[1], script=script)
    recorded = None if store is None else _recorded(store)
    scripts = [] if recorded is None else [recorded[0]]
    for script in [*scripts, SCRIPT]:
        for place in places:
            found = hydra_main(place / script)
            if found is not None:
                folder, name = found
                if recorded is not None and script == recorded[0]:
                    asked = recorded[1] != name
                    yield Entry(folder=folder, name=recorded[1], script=script, is_asked=asked)
                if name is not None:
                    yield Entry(folder=folder, name=name, script=script)
    for place in places:
        for name in (*([recorded[1]] if recorded is not None else []), NAME, "config"):
            yield Entry(folder=place.absolute() / FOLDER, name=name)


def declared_scripts(place: Path) -> list[str]:
    """Return the scripts that `entry:` names in the files of `conf/expdb`, relative to `place`."""
    found: list[str] = []
    for path in sorted((place / FOLDER / OURS).glob("*.yaml")):
        try:
            script = scalar_in(path.read_text(encoding="utf-8"), "entry")
        except (OSError, UnicodeDecodeError, Unreadable):
            continue  # composing names the file and what is wrong with it
        if script is not None and _is_below(script):
            found.append(script)
    return found


def _recorded(store: Store) -> tuple[str, str] | None:
    """Return (script, config name) of the newest run that says them."""
    newest: tuple[int, str, str] | None = None
    for _, path, version in sorted(run_dirs(store.root), key=lambda item: -item[2][0])[:20]:
        try:
            data = read_identity(RunLayout(path))
        except ExpdbError:
            continue
        command, name = data.get("command"), data.get("config_name")
        if not isinstance(name, str) or not isinstance(command, list) or len(command) < 2:
            continue
        script = command[1]
        # A store may come from elsewhere: what it names is looked for below the places only.
        if isinstance(script, str) and _is_below(script) and _is_below(name):
            found = (version[0], script, name)
            newest = max(newest, found) if newest is not None else found
    return None if newest is None else newest[1:]


def _is_below(text: str) -> bool:
    path = Path(text)
    return bool(text) and "\0" not in text and not path.is_absolute() and ".." not in path.parts


def hydra_main(script: Path) -> tuple[Path, str | None] | None:
    """Return (config folder, config name) of a script's `@hydra.main`; None where it has none."""
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and _is_main(decorator.func):
                    return _arguments(decorator, script)
    return None


def _is_main(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "main" and isinstance(node.value, ast.Name) and node.value.id == "hydra"
    return isinstance(node, ast.Name) and node.id in ("main", "hydra_main")


def _arguments(call: ast.Call, script: Path) -> tuple[Path, str | None] | None:
    given = {word.arg: word.value for word in call.keywords if word.arg}
    given |= dict(zip(("config_path", "config_name"), call.args, strict=False))
    texts = {
        name: node.value
        for name, node in given.items()
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    folder, name = texts.get("config_path"), texts.get("config_name")
    if folder is None or "://" in folder or "\0" in folder:
        return None
    return (script.absolute().parent / folder).resolve(), (name or "").removesuffix(".yaml") or None
