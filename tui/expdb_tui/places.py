"""Where the app keeps what is not the store's: chosen keys, and how it was looked at last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def keys_file(env: Mapping[str, str]) -> Path:
    """Return the file of the user's own keys."""
    return _folder(env, "XDG_CONFIG_HOME", ".config") / "expdb" / "keys.yaml"


def state_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of what is remembered, one file a store."""
    return _folder(env, "XDG_STATE_HOME", ".local/state") / "expdb" / "tui"


def _folder(env: Mapping[str, str], name: str, usual: str) -> Path:
    said = env.get(name, "")
    # A relative folder there has no meaning, as the rules of these names say.
    if said and Path(said).is_absolute():
        return Path(said)
    return Path(env.get("HOME") or Path.home()) / usual
