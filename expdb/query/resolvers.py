"""Resolvers that a project declares in `expdb.resolvers`, so that its configs can be composed
without its script.

Invariant: only a module of the project itself is imported; one of another place is refused by name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Final

from expdb.errors import BadInput
from expdb.text import plain

LEAVES: Final = "it leaves by sys.exit"


def register(resolvers: Mapping[str, str], root: Path) -> list[Path]:
    """Register resolver name -> `package.module:function`; return the files they are from.

    Args:
        resolvers: what a config's `expdb.resolvers` says.
        root: the project's folder, which modules are imported from.

    Raises:
        BadInput: a module or function that is not there, or not of the project.
    """
    from omegaconf import OmegaConf

    files = []
    for name, place in resolvers.items():
        module_name, _, function_name = place.partition(":")
        module = _module(name, module_name, root)
        function = getattr(module, function_name, None)
        if not callable(function):
            raise BadInput(
                f"expdb.resolvers.{plain(name)}: {plain(module_name)} has no function "
                f"{plain(function_name)}"
            )
        OmegaConf.register_new_resolver(name, function, replace=True)
        files.append(Path(str(module.__file__)))
    return files


def _module(name: str, module: str, root: Path) -> ModuleType:
    said = f"expdb.resolvers.{plain(name)}"
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        raise BadInput(f"{said} is not `package.module:function`")
    top = root.resolve()
    found = [top.joinpath(*parts).with_suffix(".py"), top.joinpath(*parts, "__init__.py")]
    if not any(path.is_file() for path in found):
        raise BadInput(f"{said}: there is no module {plain(module)} in {plain(str(root))}")
    sys.path.insert(0, str(top))
    try:
        with redirect_stdout(sys.stderr):  # what a module prints is no part of an answer
            made = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        said = f"{said}: {plain(module)} cannot be imported"
        why = LEAVES if isinstance(error, SystemExit) else str(error) or type(error).__name__
        raise BadInput(f"{said}: {plain(why)}") from error
    finally:
        sys.path.remove(str(top))
    if not Path(str(made.__file__)).resolve().is_relative_to(top):
        raise BadInput(f"{said}: {plain(module)} is another module, {plain(str(made.__file__))}")
    return made
