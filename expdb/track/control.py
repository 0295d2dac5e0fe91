"""What `expdb ctl` asks of a run while it trains: save, eval, pause, go, stop.

A loop of one's own asks between two updates, on rank 0:

    asked = run.control.take(step)
    if asked.save:
        run.checkpoint(step, state)
        run.control.finish("save", step, "checkpoint saved")

Invariant: a look is one scandir at most every 0.5 s, and draws from no generator. Each request is
told once, and answered once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from expdb import text
from expdb.store import control as requests
from expdb.store.control import Request
from expdb.store.files import reason
from expdb.store.layout import RunLayout

if TYPE_CHECKING:
    from expdb.track.update import Engine

LOOK_S = 0.5
POLL_S = 0.1


class Asked(NamedTuple):
    """What is asked for at one border of updates."""

    stop: bool = False
    save: bool = False
    evaluate: bool = False
    pause: bool = False
    go: bool = False
    due: tuple[bool, ...] = ()
    """Which actions of rules are due, in the order of `run.actions.table`."""

    def flat(self) -> tuple[bool, ...]:
        """Return all of it in a row, as ranks add it up."""
        return (*self[:-1], *self.due)

    @classmethod
    def of(cls, flags: Iterable[bool]) -> Asked:
        """Return what such a row says."""
        stop, save, evaluate, pause, go, *due = flags
        return cls(stop, save, evaluate, pause, go, tuple(due))


NOTHING = Asked()


class Control:
    """The requests to one attempt; without a layout, as on ranks beside 0, there never are any."""

    def __init__(
        self,
        layout: RunLayout | None,
        attempt: int = 1,
        *,
        on_trouble: Callable[[str], None] = lambda message: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._layout, self._attempt = layout, attempt
        self._on_trouble = on_trouble
        self._clock = clock
        self._due = clock()
        self._seen: set[str] = set()
        self._strange: set[str] = set()
        self._open: dict[str, list[Request]] = {}
        self._is_pausing = False
        """From the moment that a pause was told to its end."""

    def take(self, step: int) -> Asked:
        """Return what was asked since the last call; `step` stands in answers that are due at once.

        `go` without a pause is answered here.
        """
        if self._layout is None or self._clock() < self._due:
            return NOTHING if not self._is_pausing else Asked(go=self.is_open("go"))
        self._due = self._clock() + LOOK_S
        found = self._look(self._layout)
        for one in found:
            self._seen.add(one.name)
            self._open.setdefault(one.verb, []).append(one)
            if one.verb == "pause":
                self._is_pausing = True
            elif one.verb == "go" and not self._is_pausing:
                self.finish("go", step, "it was not paused")
        asked = {one.verb for one in found}
        return Asked(
            stop="stop" in asked,
            save="save" in asked,
            evaluate="eval" in asked,
            pause="pause" in asked,
            go=self.is_open("go"),
        )

    def hold(self, who: str) -> None:
        """Ask for a pause in the name of somebody else than `expdb ctl`, and take it as told."""
        self._is_pausing = True
        if self._layout is None:
            return
        try:
            one = requests.request(self._layout, self._attempt, "pause", who=who)
        except OSError as error:
            self._on_trouble(f"store: {reason(error)}; the run is not shown as paused")
            return
        self._seen.add(one.name)
        self._open.setdefault("pause", []).append(one)

    def is_open(self, verb: str) -> bool:
        """Tell whether a request of that verb was told and is not answered."""
        return verb in self._open

    def finish(self, verb: str, step: int, outcome: str, *, ok: bool = True) -> None:
        """Answer all that was told of a verb, `ok` where it was done; without any, do nothing."""
        if verb == "go":
            self._is_pausing = False
        for one in self._open.pop(verb, ()):
            assert self._layout is not None
            try:
                requests.done(self._layout, one, step=step, ok=ok, outcome=outcome)
            except OSError as error:
                self._on_trouble(f"store: {reason(error)}; the answer to `{verb}` is not written")

    def _look(self, layout: RunLayout) -> list[Request]:
        strange: set[str] = set()
        try:
            found = requests.pending(layout, self._attempt, strange=strange)
        except OSError as error:
            self._on_trouble(f"store: requests cannot be read ({reason(error)})")
            return []
        for name in sorted(strange - self._strange):
            self._on_trouble(f"control/{text.plain(name)} is no request; it is left alone")
        self._strange |= strange
        return [one for one in found if one.name not in self._seen]


def wait_for_go(
    control: Control,
    step: int,
    *,
    poll: Callable[[], Asked],
    act: Callable[[Asked], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Asked:
    """Wait at the border of `step` until a `go` or a `stop`; return what is asked for then.

    `act` does what is asked for meanwhile. All ranks wait together: `poll` gives all the same.
    """
    while True:
        control.finish("pause", step, "paused")
        asked = poll()
        if asked.stop or asked.go:
            return asked._replace(pause=False)
        if asked.save or asked.evaluate:
            act(asked)
        sleep(POLL_S)


def agreed(engine: Engine, asked: Sequence[bool]) -> Asked:
    """Return what any rank asks for, the same on all of them; it waits for all ranks."""
    if engine.world == 1:
        return Asked.of(asked)
    import torch
    import torch.distributed as dist

    counts = torch.tensor([float(one) for one in asked], device=engine.device)
    dist.all_reduce(counts)
    return Asked.of(number > 0 for number in counts.tolist())


def told(engine: Engine, *numbers: int) -> tuple[int, ...]:
    """Return the numbers of rank 0 on all ranks; it waits for all of them."""
    if engine.world == 1:
        return numbers
    import torch
    import torch.distributed as dist

    mine = numbers if dist.get_rank() == 0 else (0,) * len(numbers)
    whole = torch.tensor(mine, dtype=torch.int64, device=engine.device)
    dist.all_reduce(whole)
    return tuple(whole.tolist())
