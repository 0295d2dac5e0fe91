"""`trainer_state.json` of the Hugging Face Trainer: its `log_history`, under the names it has.

`epoch` and `step` are no metrics. A best metric that is null is no fault: it means that none was
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from expdb.errors import BadInput
from expdb.importers.document import load
from expdb.importers.found import Found, RunFacts, Skips, Source, Step, named, whole
from expdb.text import plain

APART: Final = frozenset(["step", "epoch"])
SETTINGS: Final = (
    "num_train_epochs", "train_batch_size", "logging_steps", "eval_steps", "save_steps",
    "trial_params",
)  # fmt: skip


def read(source: Source) -> Found:
    """Return what a trainer state holds.

    Raises:
        BadInput: it is none.
    """
    data, skips = load(source.path), Skips(plain(source.path.name))
    history = data.get("log_history")
    if not isinstance(history, list):
        raise BadInput(f"{plain(source.path.name)} has no log_history")
    config = {name: data[name] for name in SETTINGS if data.get(name) is not None}
    facts = {"": RunFacts(config=config, max_steps=whole(data.get("max_steps")))}
    return Found(steps=_steps(history, skips), skips=skips, facts=facts)


def _steps(history: list[Any], skips: Skips) -> Iterator[tuple[str, Step]]:
    for at, entry in enumerate(history, start=1):
        step = whole(entry.get("step")) if isinstance(entry, Mapping) else None
        if step is None:
            skips.add("an entry without a step", at)
            continue
        pairs = ((name, value) for name, value in entry.items() if name not in APART)
        values = named(pairs, skips, at)
        if values:
            yield "", Step(step, values)
