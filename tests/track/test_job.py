"""What the overrides of a job say: its experiment, its variant, keys that look like typos."""

from __future__ import annotations

import pytest

from expdb.track.folder import experiment_of
from expdb.track.job import Job, current_job, experiment, nearest, variant_of

KEYS = ["optim.lr", "optim.wd", "optim.betas", "loop.max_steps", "loop.batch_size", "model.d"]


def variant(*overrides: str) -> str:
    return variant_of(overrides, experiment_key="exp", seed_key="seed", ignore=["loop.num_workers"])


def test_outside_hydra_there_are_no_overrides() -> None:
    assert current_job() == Job()
    assert experiment(Job(), None, "exp") == "adhoc"
    assert experiment(Job(overrides=("+exp=a",)), "mine", "exp") == "mine"


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "adhoc"), (["optim.lr=1"], "adhoc"), (["+exp=exp01"], "exp01"),
        (["exp=exp01"], "exp01"),
        (["+exp=[a,b]"], "a+b"), (["+exp=[a, 'b']"], "a+b"), (["+experiment=a"], "adhoc"),
        (["+exp="], "adhoc"), (["a=1", "++exp=sub/deep"], "sub/deep"),
    ],
)  # fmt: skip
def test_the_experiment_is_what_the_overrides_name(overrides: list[str], name: str) -> None:
    assert experiment_of(overrides) == name


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        (["+exp=a", "seed=3", "expdb.store=x", "hydra.verbose=true", "loop.num_workers=4"], ""),
        (["optim.lr=1e-2"], "+optim.lr=0.01"),
        (["optim.lr=0.010", "b=1"], "+b=1+optim.lr=0.01"),
        (["b=1.0", "optim.lr=0.01"], "+b=1+optim.lr=0.01"),
        (["++b=null", "schedule=cosine"], "+b=null+schedule=cosine"),
        (["a='1'", 'b="x y"', "c=[1,'z',2.0]", "d={k:true}"], "+a=1+b=x y+c=[1,z,2]+d={k:true}"),
        (["~loop.clip"], "+~loop.clip"),
        (["a=1", "a=2"], "+a=2"),
        (["+tracker.key=FAKE-KEY", "z=1"], "+tracker.key=<redacted>+z=1"),
    ],
)  # fmt: skip
def test_a_variant_is_what_is_left_in_one_spelling(overrides: list[str], name: str) -> None:
    assert variant(*overrides) == name


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("optim.learning_rate", "optim.lr"), ("optim.dw", "optim.wd"), ("optim.lrr", "optim.lr"),
        ("loop.max_step", "loop.max_steps"), ("loop.bs", "loop.batch_size"),
        ("optm.betas", "optim.betas"),
        ("completely.other", ""), ("optim.beta", "optim.betas"),
    ],
)  # fmt: skip
def test_the_nearest_known_key(typed: str, meant: str) -> None:
    assert nearest(typed, KEYS) == meant
