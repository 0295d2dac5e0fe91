"""Loaders of a dataset whose order is exact: shuffled by a seed, or in buckets of like lengths.

    expdb.Loader(dataset, batch_size=32, seed=0)
    expdb.Loader(dataset, batch_size=32, seed=0, buckets=expdb.LengthBuckets(lengths, most=8))

Invariant: the batches of an epoch hang on the dataset's size, the sizes of batches, the seed and
the epoch only; the global generators are neither read nor moved. `state_dict` counts batches that
were given out, not those that workers hold ready, so that a resume goes on with the very next one,
with any number of workers.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from expdb.errors import BadInput
from expdb.track.state import place

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_WORKERS: Final = 8
PREFETCH: Final = 4


def num_cores() -> int:
    """Return the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def possible_workers(cores: int, *, wanted: int = MOST_WORKERS) -> int:
    """Return how many workers of those wanted leave a core to training itself."""
    return max(0, min(wanted, cores - 1))


def loader_options(workers: int, *, prefetch: int = PREFETCH, is_cuda: bool) -> dict[str, Any]:
    """Return arguments of a DataLoader that go together: some are refused without workers."""
    options: dict[str, Any] = {"num_workers": workers, "pin_memory": is_cuda}
    if workers:
        options |= {"prefetch_factor": prefetch, "persistent_workers": True}
    return options


class LengthBuckets:
    """Pads sequences to at most `most` lengths, for steps of few shapes with little padding.

    `lengths` has the length of each item. Each bucket has about as many items as another.

    Raises:
        BadInput: there is no item, one has a negative length, or `most` is under 1.
    """

    def __init__(self, lengths: Sequence[int], *, most: int = 8) -> None:
        ordered = sorted(int(length) for length in lengths)
        if not ordered or ordered[0] < 0 or most < 1:
            raise BadInput(f"LengthBuckets: {len(ordered)} lengths, the least"
                           f" {ordered[0] if ordered else 'none'}, most={most}")  # fmt: skip
        ends = (len(ordered) * part // most - 1 for part in range(1, most + 1))
        self.borders = tuple(sorted({ordered[end] for end in ends if end >= 0}))
        """The lengths that sequences are padded to, in order; the last is the longest item's."""
        places = [bisect_left(self.borders, int(length)) for length in lengths]
        self.members = tuple(
            tuple(item for item, at in enumerate(places) if at == place)
            for place in range(len(self.borders))
        )
        """The items of each bucket."""

    def padded(self, length: int) -> int:
        """Return what a sequence of a length is padded to.

        Raises:
            BadInput: it is longer than any that the buckets were made of.
        """
        at = bisect_left(self.borders, length)
        if at == len(self.borders):
            raise BadInput(f"a sequence has length {length}; the longest was {self.borders[-1]}")
        return self.borders[at]

    def pad(self, sequences: Sequence[Any], *, value: int = 0) -> Tensor:
        """Return sequences of one batch as [batch, padded length], filled up with a value."""
        import torch

        rows = [torch.as_tensor(row) for row in sequences]
        width = self.padded(max(len(row) for row in rows))
        out = torch.full((len(rows), width), value, dtype=rows[0].dtype)
        for at, row in enumerate(rows):
            out[at, : len(row)] = row
        return out


class _Order:
    """The batches of one epoch from some place on, as lists of items."""

    def __init__(self, buckets: Sequence[Sequence[int]], size: int, seed: int, *, shuffle: bool,
                 drop_last: bool) -> None:  # fmt: skip
        self._buckets, self._size, self._seed = buckets, size, seed
        self._shuffle, self._drop_last = shuffle, drop_last
        self.epoch, self.begin = 0, 0
        self._rank, self._world = place()

    def __len__(self) -> int:
        """The batches of a whole epoch, of this rank."""
        counts = (len(items) for items in self._buckets)
        extra = 0 if self._drop_last else self._size - 1
        return sum((count + extra) // self._size for count in counts) // self._world

    def generator(self) -> torch.Generator:
        """Return the generator of this epoch; each call gives it from its beginning."""
        import torch

        return torch.Generator().manual_seed((self._seed * 1_000_003 + self.epoch) % 2**63)

    def __iter__(self) -> Iterator[list[int]]:
        import torch

        generator, batches = self.generator(), list[list[int]]()

        def order(count: int) -> list[int]:
            if not self._shuffle:
                return list(range(count))
            return torch.randperm(count, generator=generator).tolist()

        for items in self._buckets:
            mixed = [items[at] for at in order(len(items))]
            found = [mixed[at : at + self._size] for at in range(0, len(mixed), self._size)]
            batches += [one for one in found if len(one) == self._size or not self._drop_last]
        mixed_batches = [batches[at] for at in order(len(batches))] if self._shuffle else batches
        # Every rank has as many batches as another, or one would wait for the rest for ever.
        return iter(mixed_batches[self._rank :: self._world][: len(self)][self.begin :])


class Loader:
    """Iterates the batches of a dataset with items and a length; each pass is one epoch.

    Workers are at most `workers` and leave one core to training; where there are none, nothing is
    prefetched. Pinned memory where there is CUDA. `collate` makes a batch of a list of items:
    torch's own, or with `buckets` their `pad`. Of several ranks each gets batches of its own.
    With workers, random numbers that the dataset draws are not the same after a resume.

    Raises:
        BadInput: a size makes no sense, the buckets are of another dataset, or there is no batch.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = True,
        buckets: LengthBuckets | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        workers: int = MOST_WORKERS,
        prefetch: int = PREFETCH,
    ) -> None:
        import torch
        from torch.utils.data import DataLoader

        for name, value, least in (
            ("batch_size", batch_size, 1), ("workers", workers, 0), ("prefetch", prefetch, 1),
        ):  # fmt: skip
            if value < least:
                raise BadInput(f"Loader: {name} is {value}, and must be at least {least}")
        if buckets is not None and sum(map(len, buckets.members)) != len(dataset):
            of = sum(map(len, buckets.members))
            raise BadInput(f"Loader: buckets of {of} items, and a dataset of {len(dataset)}")
        groups = [range(len(dataset))] if buckets is None else buckets.members
        self._order = _Order(groups, batch_size, seed, shuffle=shuffle, drop_last=drop_last)
        if not len(self._order):
            raise BadInput(f"Loader: {len(dataset)} items give no batch of {batch_size}")
        options = loader_options(
            possible_workers(num_cores(), wanted=workers), prefetch=prefetch,
            is_cuda=torch.cuda.is_available(),
        )  # fmt: skip
        if collate is None and buckets is not None:
            collate = buckets.pad
        self._generator = torch.Generator()
        self.torch_loader: Any = DataLoader(
            dataset, batch_sampler=self._order, collate_fn=collate, generator=self._generator,
            **options,
        )  # fmt: skip
        """What gives the batches out; in an order that this object sets."""
        self.num_workers: int = options["num_workers"]
        self.prefetch_factor: int | None = options.get("prefetch_factor")
        self._epoch, self._given = 0, 0

    def __len__(self) -> int:
        """The batches of an epoch."""
        return len(self._order)

    def __iter__(self) -> Iterator[Any]:
        self._order.epoch, self._order.begin = self._epoch, self._given
        self._generator.set_state(self._order.generator().get_state())
        for batch in self.torch_loader:
            self._given += 1
            yield batch
        self._epoch, self._given = self._epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and the batches given out in it."""
        return {"epoch": self._epoch, "num_batches": self._given}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on, from the next pass on, with the batch that followed when `state` was taken."""
        # At the end of an epoch the next pass is empty, as the one that was saved would have ended.
        self._epoch, self._given = int(state["epoch"]), min(int(state["num_batches"]), len(self))
