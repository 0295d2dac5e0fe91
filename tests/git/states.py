"""All states, in the order of docs/versioning.md."""

from __future__ import annotations

from tests.git import states_content, states_edits, states_places
from tests.git.state import STATES

__all__ = ["STATES"]

PARTS = (states_edits, states_places, states_content)
STATES = {
    name: state
    for part in PARTS
    for name, state in STATES.items()
    if state.make.__module__ == part.__name__
}
