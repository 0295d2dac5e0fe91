"""`run.watch`: the signals inside a model, in any loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from expdb.errors import BadInput

if TYPE_CHECKING:
    from expdb.track.console import Console
    from expdb.track.media import Body
    from expdb.track.watch.watch import Watch


class Watchable:
    """What a run has for watching models."""

    settings: Mapping[str, Any]
    step: int
    console: Console
    watched: Watch | None = None
    """What `watch` returned last."""

    def watch(self, model: Any, optimizer: Any = None, **options: Any) -> Watch:
        """Measure gradients, weights, updates, activations, attention, experts and memory of a
        model from now on; `Loop` does so by itself where `expdb.watch.enabled` says so.

        `model` is a module or a dict of them, `optimizer` one of torch's or a list. `options` are
        those of `expdb.watch` and win over the config. In a loop of one's own the optimizers' steps
        are the updates, numbered from `run.step`.

        Raises:
            BadInput: the model has no parameters, or an option is unknown or makes no sense.
        """
        from expdb.track.watch.options import options_of
        from expdb.track.watch.out import Out
        from expdb.track.watch.watch import Watch

        models = dict(model) if isinstance(model, Mapping) else {"": model}
        for name, one in models.items():
            if not hasattr(one, "named_modules") or next(one.parameters(), None) is None:
                what = f"model {name}" if name else "the model"
                raise BadInput(f"watch: {what} is a {type(one).__name__} without parameters")
        is_list = isinstance(optimizer, Sequence)
        optims = list(optimizer) if is_list else [] if optimizer is None else [optimizer]
        if self.watched is not None:
            self.watched.close()
        found = options_of(self.settings.get("watch", {}), **options)
        out: Out | None = Out(cast(Any, self)) if self._is_recording else None
        self.watched = Watch(out, models, optims, found, step=self.step)
        self.watched.drive()
        return self.watched

    _is_recording = True

    def add_hist(self, key: str, fields: dict[str, Any], step: int) -> None:
        """Keep a histogram that is counted already."""
        self._add("hist", key, step, (fields, b""))

    def _add(self, kind: str, key: str, step: int, body: Body) -> None:
        """Keep a record of media; a run that records nothing keeps none."""
