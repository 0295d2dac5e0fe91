"""Writing and reading the checkpoints of one run.

Invariant: the calling thread writes tensors to `.tmp-step=K`; one background thread makes them
durable, hashes them by reading the files, writes the manifest last, renames, then applies
retention. One save is in flight at a time; what fails in the thread is raised by the next `save`,
`poll` or `wait`.
"""

from __future__ import annotations

import pickle
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from expdb.errors import BadInput, Corrupt, ExpdbError, NotFound
from expdb.model import Checkpoint
from expdb.store import checkpoints as folders
from expdb.store.files import fsync_dir
from expdb.store.layout import RunLayout
from expdb.store.left_behind import set_left_aside
from expdb.store.retention import Candidate, keep_of, removable
from expdb.track.foreign import unsupported
from expdb.track.state import OWN_FILE, Part, load_into

if TYPE_CHECKING:
    from expdb.track.state import State

STATE_FILE = "state.pt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """One checkpoint that is in place."""

    checkpoint: Checkpoint
    removed: tuple[int, ...] = ()
    """Steps that retention removed after it."""
    keep: str = ""
    """The rule in words: `keep: last 2, best 1`."""
    note: str = ""
    """Why nothing was removed although something might go; empty as a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a load did."""

    step: int
    notes: tuple[str, ...] = ()
    """What is not exactly as it was, and which damaged checkpoints were passed over."""


class Checkpointer:
    """The one writer of a run's checkpoints.

    `keep` is the declared rule ({"last": 2, "best": 1}); `protected` returns steps that a tag, a
    ref, a parent or an eval needs, and is called in the background thread. All ranks call `save`;
    rank 0 alone writes.
    """

    def __init__(
        self,
        layout: RunLayout,
        *,
        attempt: int,
        keep: Mapping[str, Any] | None = None,
        mode: Literal["min", "max"] = "min",
        protected: Callable[[], Collection[int]] = tuple,
        rank: int = 0,
    ) -> None:
        self._layout = layout
        self._attempt = attempt
        self._keep = keep_of(keep or {})
        self._mode = mode
        self._protected = protected
        self._rank = rank
        self._values: dict[int, float] = {}
        self._thread: threading.Thread | None = None
        self._done: list[Saved] = []
        self._failure: BaseException | None = None
        if rank == 0:
            folders.recover(layout)

    def note_value(self, step: int, value: float) -> None:
        """Remember the objective at `step`, for the best n; values of earlier attempts too."""
        self._values[step] = value

    def save(self, step: int, state: State) -> None:
        """Write `state` as the checkpoint of `step`; on return its tensors may change again.

        Raises:
            BadInput: the state holds what could not be loaded again; nothing was written.
            Corrupt: this checkpoint, or the one before it, could not be written.
        """
        import torch

        parts = state.collect(step)
        if self._rank != 0:
            return
        self._join()
        temp = folders.temp_dir(self._layout, step)
        try:
            shutil.rmtree(temp, ignore_errors=True)
            temp.mkdir(parents=True)
            for name, content in _files_of(parts).items():
                torch.save(content, temp / name)
            fsync_dir(temp)
        except (OSError, RuntimeError) as error:
            shutil.rmtree(temp, ignore_errors=True)
            raise self._unwritten(step, error) from error
        manifest = folders.Manifest(
            step=step,
            attempt=self._attempt,
            created_at_ms=time.time_ns() // 1_000_000,
            tokens=state.loop.tokens,
            world_size=len(parts["ranks"].tree),
            torch=torch.__version__,
            value=self._values.get(step),
            parts={
                name: {"file": _file_of(name), "names": list(part.names)}
                for name, part in parts.items()
            },
        )
        self._thread = threading.Thread(
            target=self._commit, args=(temp, manifest), name=f"expdb-checkpoint-{step}"
        )
        self._thread.start()

    def poll(self) -> tuple[Saved, ...]:
        """Return what was put in place since the last call, without waiting.

        Raises:
            Corrupt: a checkpoint could not be written.
        """
        if self._thread is not None and self._thread.is_alive():
            return ()
        return self.wait()

    def wait(self) -> tuple[Saved, ...]:
        """Wait until nothing is in flight, and return what was put in place since the last call.

        Raises:
            Corrupt: a checkpoint could not be written.
        """
        self._join()
        done, self._done = tuple(self._done), []
        return done

    def load(self, step: int | None, state: State) -> Loaded:
        """Restore `state` from the checkpoint of `step`, or from the newest good one if it is None.

        Raises:
            NotFound: there is no checkpoint, or none that is good.
            Corrupt: the one at `step` is damaged; the hint names the next good one.
            BadInput: it does not fit the state given.
        """
        self._join()
        return load_checkpoint(self._layout, step, state)

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _commit(self, temp: Path, manifest: folders.Manifest) -> None:
        try:
            folders.seal(temp, manifest)
            set_left_aside(self._layout, manifest)
            folders.put_in_place(self._layout, manifest.step)
            removed, note = self._retain(manifest.step)
            checkpoint = folders.read_checkpoint(self._layout, manifest.step)
        except OSError as error:
            shutil.rmtree(temp, ignore_errors=True)
            self._failure = self._unwritten(manifest.step, error)
        except ExpdbError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - what a thread raises must reach the training thread
            self._failure = Corrupt(
                f"checkpoint {manifest.step} of {self._layout.id} was not finished:"
                f" {type(error).__name__}: {error}"
            )
            self._failure.__cause__ = error
        else:
            self._done.append(
                Saved(
                    checkpoint=checkpoint,
                    removed=removed,
                    keep=f"keep: {self._keep.words()}",
                    note=note,
                )
            )

    def _retain(self, newest: int) -> tuple[tuple[int, ...], str]:
        """Remove what the rule lets go; if it cannot be known what is needed, nothing goes."""
        try:
            protected = self._protected()
        except (ExpdbError, OSError) as error:
            return (), f"no checkpoint removed: what is protected is not known ({error})"
        candidates = []
        for one in folders.read_manifests(self._layout):
            value = self._values.get(one.step)
            if value is None and one.complete:
                value = folders.read_manifest(self._layout, one.step).value
            candidates.append(
                Candidate(step=one.step, attempt=one.attempt, value=value, complete=one.complete)
            )
        gone = removable(
            candidates, keep=self._keep, mode=self._mode, protected=protected, newest=newest
        )
        return tuple(step for step in gone if folders.remove(self._layout, step)), ""

    def _unwritten(self, step: int, error: Exception) -> Corrupt:
        why = str(error).split("\n")[0]
        if isinstance(error, OSError) and error.strerror:
            why = error.strerror
        return Corrupt(
            f"checkpoint {step} of {self._layout.id} could not be written: {why}",
            hint=f"the folder: {self._layout.checkpoints}",
        )


def load_checkpoint(
    layout: RunLayout, step: int | None, state: State, *, fork: bool = False
) -> Loaded:
    """Restore `state` from a checkpoint of any run; `fork` keeps the current hyper-parameters.

    Raises:
        NotFound: there is no checkpoint, or none that is good.
        Corrupt: the one at `step` is damaged; the hint names the next good one.
        BadInput: it does not fit the state given.
    """
    passed: list[str] = []
    if step is None:
        step = _newest_good(layout, passed)
    else:
        folders.verify(layout, step)
    notes = state.load(_read_parts(layout, step), fork=fork)
    state.loop.step = step
    return Loaded(step=step, notes=(*passed, *notes))


def load_start(
    layout: RunLayout, resumed_from: int | None, fork: tuple[Path, int] | None, state: State
) -> Loaded:
    """Restore `state` from what a run starts from: its own checkpoint, that of another run (folder
    and step), or nothing, which is step 0.

    Raises:
        NotFound, Corrupt, BadInput: as `load_checkpoint`.
    """
    if resumed_from:
        return load_checkpoint(layout, resumed_from, state)
    if fork is not None:
        folder, step = fork
        return load_checkpoint(RunLayout(folder), step, state, fork=True)
    return Loaded(step=0)


def load_weights(layout: RunLayout, step: int, state: State) -> None:
    """Take the models and their averages of a checkpoint over, and nothing else of it.

    Raises:
        NotFound, Corrupt, BadInput: as `load_checkpoint`.
    """
    folders.verify(layout, step)
    state.load_weights(_read_parts(layout, step))


def load_part(layout: RunLayout, step: int, part: str, *, into: Any) -> None:
    """Load one part (`model`, `ema`, `optim`) of a checkpoint into a live object.

    Averaged weights (`ema`) also go into a plain model.

    Raises:
        NotFound: there is no such checkpoint, or it has no such part.
        Corrupt: it is damaged; the hint names the next good one.
        BadInput: it does not fit.
    """
    folders.verify(layout, step)
    there = folders.read_manifest(layout, step).parts
    if part not in there:
        raise NotFound(
            f"checkpoint {step} of {layout.id} has no part `{part}`; it has {', '.join(there)}"
        )
    tree = _read_parts(layout, step, only=part)[part].tree
    if there[part]["names"] and isinstance(into, Mapping):
        for name in there[part]["names"]:
            if name not in into:
                raise BadInput(f"`into` has no {part} named `{name}`, which checkpoint {step} has")
            load_into(into[name], tree[name], f"{part}.{name}")
        return
    if part == "ema" and "n_averaged" in tree and not hasattr(into, "n_averaged"):
        tree = {
            key.removeprefix("module."): one for key, one in tree.items() if key != "n_averaged"
        }
    load_into(into, tree, part)


def _newest_good(layout: RunLayout, passed: list[str]) -> int:
    there = folders.steps(layout)
    for step in reversed(there):
        problem = folders.damage(layout, step)
        if not problem:
            return step
        passed.append(f"checkpoint {step} is passed over: {problem}")
    if not there:
        raise NotFound(f"{layout.id} has no checkpoint")
    raise NotFound(f"{layout.id} has no good checkpoint", details=tuple(passed))


def _file_of(part: str) -> str:
    return f"{part}.pt" if part in OWN_FILE else STATE_FILE


def _files_of(parts: Mapping[str, Part]) -> dict[str, Any]:
    """Return file name -> what goes into it."""
    files: dict[str, Any] = {_file_of(name): parts[name].tree for name in OWN_FILE if name in parts}
    files[STATE_FILE] = {name: part.tree for name, part in parts.items() if name not in OWN_FILE}
    return files


def _read_parts(layout: RunLayout, step: int, *, only: str | None = None) -> dict[str, Part]:
    """Return the parts of a verified checkpoint, on the CPU.

    Raises:
        Unsupported: a file holds classes that nobody has allowed.
        Corrupt: a file cannot be read.
    """
    import torch

    manifest = folders.read_manifest(layout, step)
    wanted = {name: one for name, one in manifest.parts.items() if only in (None, name)}
    contents: dict[str, Any] = {}
    parts = {}
    for name, one in wanted.items():
        file = one["file"]
        try:
            if file not in contents:
                path = layout.checkpoint(step) / file
                contents[file] = torch.load(path, map_location="cpu", weights_only=True)
            tree = contents[file] if name in OWN_FILE else contents[file][name]
        except (OSError, RuntimeError, KeyError, EOFError, pickle.UnpicklingError) as error:
            whole = [layout.checkpoint(step) / name for name in sorted(manifest.files)]
            foreign = unsupported(f"checkpoint {step} of {layout.id}", whole)
            if foreign is not None:
                raise foreign from error
            line = str(error).split("\n")[0]
            raise Corrupt(
                f"checkpoint {step} of {layout.id}: {file} cannot be read ({line})"
            ) from error
        parts[name] = Part(tree=tree, names=tuple(one["names"]))
    return parts
