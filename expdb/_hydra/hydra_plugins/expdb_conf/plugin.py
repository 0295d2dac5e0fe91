"""Puts expdb's groups at the end of Hydra's search path, and names each run's folder.

Hydra imports this at every start of every Hydra app: it loads the standard library and `expdb.conf`
only.
"""

from __future__ import annotations

from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from expdb.conf.folder import conf_dir
from expdb.conf.script import tell_script


def run_dir(overrides: Any, store: Any, key: Any = "exp") -> str:
    """Return the folder of a new run: `<store>/exp=<experiment>/run=<id>`."""
    from expdb.track.folder import new_run_dir

    return str(new_run_dir([str(item) for item in overrides], store, str(key)))


def sweep_dir(store: Any) -> str:
    """Return the store: Hydra joins each job's own folder to it."""
    from expdb.track.folder import forget_sweep_file

    return str(forget_sweep_file(store))


class ExpdbSearchPath(SearchPathPlugin):
    """Appends, never prepends: the user's own groups of the same name win."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append expdb's folder, and register the resolvers that `hydra.run.dir` uses."""
        tell_script()
        search_path.append(provider="expdb", path=f"file://{conf_dir()}")
        for name, resolver in (("expdb_run_dir", run_dir), ("expdb_sweep_dir", sweep_dir)):
            # Cached, so that one composed config names one folder however often it is read.
            OmegaConf.register_new_resolver(name, resolver, use_cache=True, replace=True)
