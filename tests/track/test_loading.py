"""Loaders: options that go together, an order that a resume goes on with, buckets of lengths."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest
import torch

import expdb
from expdb.errors import BadInput
from expdb.track import loading
from expdb.track.loop_state import LoopState
from expdb.track.probes.loader import is_torch_loader


def loader(num: int = 23, **change: Any) -> expdb.Loader:
    return expdb.Loader(list(range(num)), **{"batch_size": 4, "seed": 3, "workers": 0, **change})


def rows(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_a_loader_without_workers_is_built_and_its_options_go_together(monkeypatch):
    monkeypatch.setattr(loading, "num_cores", lambda: 16)
    usual = loader(workers=8).torch_loader
    assert (usual.num_workers, usual.prefetch_factor, usual.persistent_workers) == (8, 4, True)
    assert usual.pin_memory is torch.cuda.is_available()
    assert is_torch_loader(loader())  # the probe may advise workers
    none = loader(workers=0).torch_loader
    assert (none.num_workers, none.prefetch_factor, none.persistent_workers) == (0, None, False)
    monkeypatch.setattr(loading, "num_cores", lambda: 4)
    assert loader(workers=8).num_workers == 3
    assert loader(workers=2).num_workers == 2
    monkeypatch.setattr(loading, "num_cores", lambda: 1)
    few = loader(workers=8)
    assert (few.num_workers, few.prefetch_factor, len(rows(few))) == (0, None, 5)


def test_an_epoch_has_each_item_once_and_the_next_one_another_order():
    found = loader(drop_last=False)
    first, second = rows(found), rows(found)
    for epoch in (first, second):
        assert sorted(item for batch in epoch for item in batch) == list(range(23))
    assert first != second
    assert len(found) == len(first) == 6
    assert rows(loader(drop_last=False)) == first
    assert rows(loader(drop_last=False, seed=4)) != first
    assert rows(loader(shuffle=False))[0] == [0, 1, 2, 3]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on_with_the_very_next_batch(monkeypatch, workers):
    monkeypatch.setattr(loading, "num_cores", lambda: 16)
    whole = loader()
    wanted = [rows(whole), rows(whole)]
    first = loader(workers=workers)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert rows(islice(first, 2)) == wanted[0][:2]
    again = loader(workers=workers)
    again.load_state_dict(first.state_dict())
    assert [rows(again), rows(again)] == [wanted[0][2:], wanted[1]]
    assert torch.equal(torch.get_rng_state(), before)
    first.load_state_dict({"epoch": 0, "num_batches": 1})
    assert rows(first) == wanted[0][1:]


def test_the_end_of_an_epoch_is_resumed_as_its_end():
    from expdb.track.batches import Batches

    def taken(found: expdb.Loader, loop: LoopState, count: int) -> list[list[int]]:
        batches = Batches(found, loop, lambda: 0.0)
        return [batches.take().tolist() for _ in range(count)]

    wanted, one = taken(loader(), LoopState(), 12), LoopState()
    first = loader()
    head = taken(first, one, 5)
    again = loader()
    again.load_state_dict(first.state_dict())
    assert head + taken(again, one, 7) == wanted
    assert one.epoch == 2


def test_buckets_pad_to_at_most_so_many_lengths():
    draw = random.Random(0)
    lengths = [draw.randint(1, 500) for _ in range(400)]
    items = [torch.full((length,), at + 1) for at, length in enumerate(lengths)]
    buckets = expdb.LengthBuckets(lengths, most=5)
    found = expdb.Loader(items, batch_size=8, buckets=buckets, drop_last=False, workers=0)
    batches = list(found)
    assert len(batches) == len(found)
    assert {batch.shape[1] for batch in batches} <= set(buckets.borders)
    assert len(buckets.borders) == 5
    seen = sorted(int(row[0]) for batch in batches for row in batch)
    assert seen == list(range(1, 401))
    for row in (row for batch in batches for row in batch):
        assert int((row > 0).sum()) == lengths[int(row[0]) - 1]
    padded = sum(batch.numel() for batch in batches)
    alone = sum(8 * max(lengths[at : at + 8]) for at in range(0, 400, 8))
    assert padded < 0.8 * alone
    again = expdb.Loader(items, batch_size=8, buckets=buckets, drop_last=False, workers=0)
    again.load_state_dict({"epoch": 0, "num_batches": 7})
    assert all(map(torch.equal, again, batches[7:]))


@pytest.mark.parametrize(
    ("lengths", "most", "borders"),
    [([3, 3, 3], 8, (3,)), ([1, 2, 3], 8, (1, 2, 3)), ([5, 1, 9, 7], 2, (5, 9)), ([4], 1, (4,))],
)
def test_there_are_no_more_borders_than_lengths(lengths, most, borders):
    buckets = expdb.LengthBuckets(lengths, most=most)
    assert buckets.borders == borders
    assert [buckets.padded(length) >= length for length in lengths] == [True] * len(lengths)
    assert sorted(item for some in buckets.members for item in some) == list(range(len(lengths)))


def test_ranks_share_an_epoch(monkeypatch):
    found = []
    for rank in range(2):
        monkeypatch.setattr(loading, "place", lambda rank=rank: (rank, 2))
        found.append(rows(loader(22)))
    items = [item for part in found for batch in part for item in batch]
    assert [len(part) for part in found] == [2, 2]
    assert len(set(items)) == len(items) == 16


def test_sizes_that_make_no_sense_are_refused():
    for change, said in (
        ({"batch_size": 0}, "batch_size is 0"),
        ({"workers": -1}, "workers is -1"),
        ({"prefetch": 0}, "prefetch is 0"),
        ({"num": 3}, "3 items give no batch of 4"),
        ({"buckets": expdb.LengthBuckets([1])}, "buckets of 1 items, and a dataset of 23"),
    ):
        with pytest.raises(BadInput, match=said):
            loader(**change)
    with pytest.raises(BadInput, match="most=0"):
        expdb.LengthBuckets([1], most=0)
    with pytest.raises(BadInput, match="length 6; the longest was 5"):
        expdb.LengthBuckets([5]).padded(6)
