from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from expdb.demo.build import DATA, MODELS, OPTIMS, SCHEDULES, build_data
from expdb.demo.fields import read_kind
from expdb.errors import BadInput

CONF = Path(__file__).parents[2] / "conf"
SHIPPED = [
    ("model", "dense", MODELS),
    ("data", "pydoc", DATA),
    ("data", "text", DATA),
    ("optim", "adamw", OPTIMS),
    ("schedule", "multi_step", SCHEDULES),
    ("schedule", "cosine", SCHEDULES),
]


@pytest.mark.parametrize(("group", "name", "kinds"), SHIPPED)
def test_shipped_yaml_states_every_key_and_the_defaults_of_the_code(group, name, kinds):
    config = OmegaConf.load(CONF / group / f"{name}.yaml")
    if name == "text":
        config.path = "some.txt"
    parsed = read_kind(group, config, kinds)
    fields = set(parsed.__dataclass_fields__)
    assert {str(key) for key in config} == fields
    given = {"path": "some.txt"} if name == "text" else {}
    assert parsed == kinds[name](**given)


def test_a_path_left_open_in_the_yaml_asks_for_it():
    config = OmegaConf.load(CONF / "data" / "text.yaml")
    with pytest.raises(BadInput, match=r"`data\.path` has no value") as caught:
        build_data(config, seq_len=128, seed=0)
    assert caught.value.hints == ("give data.path=VALUE",)
