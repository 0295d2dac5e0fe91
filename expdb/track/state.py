"""Everything a run needs to go on exactly as if it had not stopped.

Invariant: what `collect` returns is plain containers and tensors, readable by
`torch.load(weights_only=True)`; anything else is refused before a byte is written.

Files of a checkpoint and the parts in them:

    model.pt   the model's state_dict itself, or {name: state_dict} of several
    optim.pt   likewise, with the per-parameter `step`
    ema.pt     likewise
    state.pt   {"sched", "scaler", "ranks": [{"rng", "loader"} per rank], "loop", "extra"}
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from expdb.errors import BadInput
from expdb.track import rng
from expdb.track.loop_state import LoopState
from expdb.track.plain import digest_of, plain
from expdb.track.scaled import Scaled

OWN_FILE = ("model", "optim", "ema")
"""Parts that have a file of their own; all others share state.pt."""
ALWAYS = {"ranks", "loop", "extra"}
"""Parts that every checkpoint has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a state: the values, and the names of its members if there are several."""

    tree: Any
    names: tuple[str, ...] = ()


class State:
    """What a checkpoint holds: `run.checkpoint(k, state)` and `run.restore(state)` take it.

    `model`, `optim`, `sched` and `ema` may each be one object, a list or a dict of them. `extra`
    holds objects with a state_dict, generators (torch, numpy, python) and plain data; plain data
    is read back from `state.extra[name]`. `loader` is any iterable; its position is saved if it
    has a state_dict.

    Raises:
        BadInput: something that must be saved has no state_dict, or is None.
    """

    def __init__(
        self,
        *,
        model: Any,
        optim: Any = None,
        sched: Any = None,
        scaler: Any = None,
        loader: Any = None,
        ema: Any = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.models = _members("model", model)
        self.optims = _members("optim", optim)
        self.scheds = _members("sched", sched)
        self.emas = _members("ema", ema)
        if not self.models:
            raise BadInput("State has no model")
        self.scaler = scaler
        self.loader = loader
        self.extra: dict[str, Any] = dict(extra or {})
        self.loop = LoopState()
        self.was_restored = False
        self.skips_batches = False
        """Whether whoever takes the batches can leave some out: `Loop` can."""
        self._scaled: Scaled | None = None

    def collect(self, step: int | None = None) -> dict[str, Part]:
        """Return all parts; tensors share the memory of the live ones. All ranks call it together.

        Raises:
            BadInput: a value could not be loaded again; the message names its path and type.
        """
        if step is not None:
            self.loop.step = step
        groups = self._groups()
        parts = {name: _collect_group(group) for name, group in groups.items() if group}
        if self.scaler is not None:
            parts["scaler"] = Part(tree=self.scaler.state_dict())
        mine = {"rng": rng.capture(), "loader": _state_of(self.loader)}
        parts["ranks"] = Part(tree=_gather(plain(mine, "loader")))
        parts["loop"] = Part(tree=self.loop.to_plain())
        parts["extra"] = Part(
            tree={name: _saved_extra(value) for name, value in self.extra.items()}
        )
        return {
            name: Part(tree=plain(part.tree, name), names=part.names)
            for name, part in parts.items()
        }

    def load(self, parts: Mapping[str, Part], *, fork: bool = False) -> tuple[str, ...]:
        """Take all parts over and return, in plain words, what is not exactly as it was.

        With `fork` the hyper-parameters of the optimizers stay those of the current config, and
        parts that this state has no use for are named, not refused. The generators come last.

        Raises:
            BadInput: a part is missing, has no place here, or does not fit.
        """
        groups = self._groups()
        present = {name for name, group in groups.items() if group}
        present |= {"scaler"} if self.scaler is not None else set()
        notes = _compare_parts(present | ALWAYS, set(parts), fork=fork)
        mine = _mine(parts["ranks"].tree)
        with _own_hyperparameters(self, keep=fork):
            for name, group in groups.items():
                if group:
                    _load_group(name, group, parts[name])
            if self.scaler is not None:
                self.scaler.load_state_dict(parts["scaler"].tree)
        self.was_restored = True
        self.loop.from_plain(parts["loop"].tree)
        notes += self._take_scale(fork=fork)
        notes += _load_extra(self.extra, parts["extra"].tree, fork=fork)
        if mine is None:
            notes.append(
                f"saved by {len(parts['ranks'].tree)} ranks, loaded by {place()[1]}:"
                " data order and random numbers differ"
            )
        else:
            notes += _load_rank(self.loader, mine)
        return tuple(notes)

    def load_weights(self, parts: Mapping[str, Part]) -> None:
        """Take the models and their averages over, and nothing else.

        Raises:
            BadInput: they do not fit.
        """
        for name in ("model", "ema"):
            if self._groups()[name] and name in parts:
                _load_group(name, self._groups()[name], parts[name])

    def _groups(self) -> dict[str, dict[str, Any]]:
        return {
            "model": self.models,
            "optim": self.optims,
            "ema": self.emas,
            "sched": self.scheds,
        }

    def scale_lr(self, factor: float) -> None:
        """Multiply every learning rate by `factor` from the next update on, on top of earlier ones.

        The rates in the optimizers' groups and the schedules stay as they are between updates.

        Raises:
            BadInput: an optimizer is not one of torch's.
        """
        self.loop.lr_scale *= factor
        self._be_scaled()

    def decay_lr(self, first: int, steps: int, end: float) -> None:
        """Let every learning rate fall to `end` of it over `steps` updates, those of `first` on.

        Raises:
            BadInput: as `scale_lr`.
        """
        self.loop.decay = (first, steps, end)
        self._be_scaled()

    def _be_scaled(self) -> None:
        if self._scaled is None and (self.loop.lr_scale != 1.0 or self.loop.decay is not None):
            self._scaled = Scaled(self.optims, self.loop)

    def _take_scale(self, *, fork: bool) -> list[str]:
        """Go on with the scale of a checkpoint; a fork has the rates of its own config."""
        scale = self.loop.lr_scale
        if fork:
            self.loop.lr_scale, self.loop.decay = 1.0, None
            self.loop.end_at = self.loop.restore_at = None
            said = f"the checkpoint's rates were times {scale:g}; a fork has those of its config"
            return [] if scale == 1.0 else [said]
        self.scale_lr(1.0)
        return []

    def digest(self) -> str:
        """Return the SHA-256 over every tensor and value of the state, by path."""
        trees = {name: part.tree for name, part in self.collect().items()}
        trees["loop"].pop("monitor")  # where the rules of a run stand is no training state
        return digest_of(trees)


def unwrap(module: Any) -> Any:
    """Return the module inside torch.compile's and DistributedDataParallel's wrappers."""
    from torch.nn.parallel import DistributedDataParallel

    while True:
        if isinstance(module, DistributedDataParallel):
            module = module.module
        elif hasattr(module, "_orig_mod"):
            module = module._orig_mod
        else:
            return module


def _members(name: str, value: Any) -> dict[str, Any]:
    """Return the members by name; a single one has the empty name."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        found = {str(key): one for key, one in value.items()}
    elif isinstance(value, Sequence):
        found = {str(index): one for index, one in enumerate(value)}
    else:
        found = {"": value}
    for key, one in found.items():
        if not hasattr(one, "state_dict") or not hasattr(one, "load_state_dict"):
            where = f"{name}[{key}]" if key else name
            raise BadInput(
                f"State: `{where}` is a {type(one).__name__} without state_dict and load_state_dict"
            )
    return found


def _collect_group(group: Mapping[str, Any]) -> Part:
    trees = {name: unwrap(one).state_dict() for name, one in group.items()}
    return Part(tree=trees[""]) if "" in trees else Part(tree=trees, names=tuple(trees))


def _state_of(thing: Any) -> Any:
    return thing.state_dict() if hasattr(thing, "state_dict") else None


def _saved_extra(value: Any) -> dict[str, Any]:
    if hasattr(value, "state_dict"):
        return {"object": value.state_dict()}
    generator = rng.capture_generator(value)
    return {"plain": value} if generator is None else {"generator": generator}


def _gather(mine: Any) -> list[Any]:
    """Return what every rank holds, in the order of ranks; just mine without a process group."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return [mine]
    # As bytes: the pickle that all_gather_object makes cannot hold tensors of unsigned words.
    written = io.BytesIO()
    torch.save(mine, written)
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, written.getvalue())
    return [torch.load(io.BytesIO(one), weights_only=True) for one in everyone]


def _compare_parts(here: set[str], there: set[str], *, fork: bool) -> list[str]:
    missing, unused = sorted(here - there), sorted(there - here)
    if missing:
        has = ", ".join(sorted(there - ALWAYS))
        raise BadInput(f"the checkpoint has no {missing[0]}; it has {has}")
    if unused and not fork:
        raise BadInput(f"the checkpoint has a {unused[0]}, and the State given has none")
    return [f"the checkpoint's {name} is not used" for name in unused]


def _load_group(name: str, group: Mapping[str, Any], part: Part) -> None:
    names = part.names or ("",)
    if set(names) != set(group):
        there, here = (
            ", ".join(one) or "a single one" for one in (part.names, filter(None, group))
        )
        raise BadInput(f"the checkpoint's {name} does not fit: saved {there}, given {here}")
    for key, one in group.items():
        load_into(one, part.tree[key] if part.names else part.tree, f"{name}.{key}".rstrip("."))


def load_into(target: Any, tree: Any, name: str) -> None:
    """Load one state_dict into its object, strictly.

    Raises:
        BadInput: names or shapes differ.
    """
    try:
        unwrap(target).load_state_dict(tree)
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        lines = said.splitlines() or [type(error).__name__]
        raise BadInput(
            f"the checkpoint's {name} does not fit: {lines[0].rstrip(':. ')}",
            details=tuple(line.strip() for line in lines[1:6]),
        ) from error


def _load_extra(extra: dict[str, Any], saved: Mapping[str, Any], *, fork: bool) -> list[str]:
    here, there = ({f"extra.{one}" for one in names} for names in (extra, saved))
    notes = _compare_parts(here, there, fork=fork)
    for name, value in extra.items():
        kind, tree = next(iter(saved[name].items()))
        if kind == "object":
            load_into(value, tree, f"extra.{name}")
        elif kind == "generator":
            rng.restore_generator(value, tree)
        else:
            extra[name] = tree
    return notes


def place() -> tuple[int, int]:
    """Return the rank of this process, and how many there are."""
    import torch.distributed as dist

    grouped = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if grouped else (0, 1)


def _mine(ranks: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return what this rank has saved; None where another number of ranks did.

    Raises:
        BadInput: the generators or the place of the loader are missing.
    """
    rank, world = place()
    if world != len(ranks):
        return None
    mine = ranks[rank]
    for name, what in (("rng", "generators"), ("loader", "place of the loader")):
        if name not in mine:
            raise BadInput(f"the checkpoint has no {what}")
    rng.require(mine["rng"])
    return mine


def _load_rank(loader: Any, mine: Mapping[str, Any]) -> list[str]:
    """Restore the position of the loader and the generators of this rank."""
    notes = []
    if mine["loader"] is not None and hasattr(loader, "load_state_dict"):
        load_into(loader, mine["loader"], "loader")
    elif loader is not None:
        lacks = "checkpoint has no place of the loader"
        if not hasattr(loader, "load_state_dict"):
            lacks = "loader has no state_dict"
        notes.append(f"the {lacks}: its data starts from the beginning")
    return [*notes, *rng.restore(mine["rng"])]


@contextmanager
def _own_hyperparameters(state: State, *, keep: bool) -> Iterator[None]:
    """With `keep`, undo what loading does to the optimizers' hyper-parameters.

    A load brings back the saved lr, betas and weight decay in silence; a fork is made to change
    them. A lr under a schedule keeps its place: saved lr times (own initial lr / saved initial lr).
    """
    optims = [one for one in state.optims.values() if hasattr(one, "param_groups")]
    own = [
        [{k: v for k, v in group.items() if k != "params"} for group in one.param_groups]
        for one in optims
    ]
    scheds = [one for one in state.scheds.values() if hasattr(one, "base_lrs")]
    base_lrs = [(one, list(one.base_lrs)) for one in scheds]
    yield
    if not keep:
        return
    for optim, groups in zip(optims, own, strict=True):
        for group, mine in zip(optim.param_groups, groups, strict=True):
            saved_lr, saved_initial = group.get("lr"), group.get("initial_lr")
            group.update(mine)
            if saved_initial and "initial_lr" in mine:
                same = mine["initial_lr"] == saved_initial
                group["lr"] = saved_lr if same else saved_lr * (mine["initial_lr"] / saved_initial)
    for sched, lrs in base_lrs:
        sched.base_lrs = lrs
