"""The `expdb:` section of a config: defaults, and words for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from expdb.errors import BadInput
from expdb.model import Objective
from expdb.track.settings import DEFAULTS, declared_objective, effective, objective_of


def test_what_is_left_out_has_its_default_and_the_defaults_stay() -> None:
    before = repr(DEFAULTS)
    found = effective({"keep": {"best": 3}, "noise": {"val/loss": 0.008}, "mode": False})
    assert found["keep"] == {"last": 2, "best": 3}
    assert effective({"keep": {"last": None}})["keep"] == {"last": None, "best": 1}
    assert found["noise"] == {"val/loss": 0.008}
    assert found["mode"] == "off"  # what YAML makes of a bare off
    assert (found["resume"], found["dirty"], found["seed_key"]) == ("auto", "snapshot", "seed")
    assert "expdb" in found["digest"]["ignore"]
    assert repr(DEFAULTS) == before
    assert effective(None) == effective({})


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"resum": "auto"}, "no setting is called expdb.resum; nearest: expdb.resume"),
        ({"digest": {"ignor": []}}, "expdb.digest.ignor; nearest: expdb.digest.ignore"),
        ({"xyzzy": 1}, "no setting is called expdb.xyzzy; known: assume_dead code digest"),
        ({"dirty": "maybe"}, "expdb.dirty is 'maybe'; it is one of: snapshot allow refuse"),
        ({"keep": 3}, "expdb.keep is int, not a mapping"),
        ({"keep": {"last": 0}}, "keep.last is 0"),
        ({"keep": {"first": 1}}, "keep has no key `first`"),
        ({"noise": {"val/loss": "small"}}, "expdb.noise.val/loss is 'small', not a number"),
        ({"noise": {"val/loss": -1}}, "not a number of at least 0"),
        ({"journal": {"fsync_interval_s": True}}, "expdb.journal.fsync_interval_s is True"),
        ({"digest": {"ignore": "loop"}}, "expdb.digest.ignore is 'loop', not a list of texts"),
        ({"labels": [1]}, "not a list of texts"),
        ({"seed_key": ""}, "expdb.seed_key is '', not a text"),
        ({"require": "val/loss"}, "expdb.require is 'val/loss', not a list of texts"),
        ({"gates": {"val/loss": {"mx": 1}}}, "expdb.gates.val/loss has no key 'mx'"),
        ({"hints": "no"}, "expdb.hints is 'no', not true or false"),
        ("text", "the config key expdb is str, not a mapping"),
    ],
)  # fmt: skip
def test_faults_are_named_with_the_nearest_right_name(section: Any, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        effective(section)
    assert words in "; ".join([caught.value.message, *caught.value.hints])


def test_objectives() -> None:
    assert objective_of("val/loss") == Objective(metric="val/loss")
    full = {"metric": "acc", "mode": "max", "reading": "best"}
    assert objective_of(full) == Objective(metric="acc", mode="max", reading="best")
    assert objective_of(None) is None
    for wrong in ({"mode": "max"}, {"metric": "a", "mode": "up"}, {"metric": "a", "reading": "x"}):
        with pytest.raises(BadInput):
            objective_of(wrong)


def test_a_config_may_use_the_word_objective_for_something_else() -> None:
    assert declared_objective("reg:squarederror") is None
    assert declared_objective({"name": "mse", "weight": 2}) is None
    assert declared_objective({"metric": "a", "mode": "max"}) == Objective(metric="a", mode="max")
    with pytest.raises(BadInput):
        declared_objective({"metric": "a", "mode": "up"})


def test_the_config_group_says_every_setting_with_its_default() -> None:
    """So each can be overridden without a plus: `expdb.print=quiet`."""
    path = Path(__file__).parents[2] / "conf" / "expdb" / "default.yaml"
    said = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(said, dict)
    assert effective(said) == effective({})
    # The rules have a group of their own, `monitor`, which says them there.
    assert said == {key: value for key, value in DEFAULTS.items() if key != "monitor"}


def test_a_study_is_a_name_or_none() -> None:
    assert effective({})["study"] is None
    assert effective({"study": "lr sweep"})["study"] == "lr sweep"
    for wrong in ("", 3, ["a"]):
        with pytest.raises(BadInput, match=r"expdb\.study is"):
            effective({"study": wrong})
