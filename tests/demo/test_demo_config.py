from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from expdb.demo.build import DATA, MODELS, OPTIMS, SCHEDULES, build_data
from expdb.demo.fields import read_kind
from expdb.errors import BadInput

CONF = Path(__file__).parents[2] / "conf"
SHIPPED = [
    ("model", "dense", MODELS),
    ("model", "moe", MODELS),
    ("data", "pydoc", DATA),
    ("data", "micro", DATA),
    ("data", "mix", DATA),
    ("data", "text", DATA),
    ("optim", "adamw", OPTIMS),
    ("schedule", "multi_step", SCHEDULES),
    ("schedule", "cosine", SCHEDULES),
]
SPECIAL = {
    "qk_norm", "bad_batches", "skip_batches", "jump_at", "jump_steps", "jump_factor",
}  # fmt: skip
"""Keys that only some files of conf/ have: in the others they would make another config digest."""
GIVEN = {
    "text": {"path": "some.txt"},
    "mix": {
        "sources": {
            "pydoc": 0.5, "arithmetic": 0.125, "instructions": 0.125, "brackets": 0.125,
            "facts": 0.125,
        }
    },
}  # fmt: skip


@pytest.mark.parametrize(("group", "name", "kinds"), SHIPPED)
def test_shipped_yaml_states_every_key_and_the_defaults_of_the_code(group, name, kinds):
    config = OmegaConf.load(CONF / group / f"{name}.yaml")
    if name == "text":
        config.path = "some.txt"
    parsed = read_kind(group, config, kinds)
    assert {str(key) for key in config} == set(parsed.__dataclass_fields__) - SPECIAL
    assert parsed == kinds[name](**GIVEN.get(name, {}))


@pytest.mark.parametrize(
    ("group", "name", "kinds", "special"),
    [
        ("model", "dense_qk_norm", MODELS, {"qk_norm": True}),
        ("model", "moe_qk_norm", MODELS, {"qk_norm": True}),
        ("data", "pydoc_bad", DATA, {"bad_batches": (200, 201, 202), "skip_batches": ()}),
        (
            "schedule", "multi_step_jump", SCHEDULES,
            {"jump_at": 150, "jump_steps": 10, "jump_factor": 30.0},
        ),
    ],
)  # fmt: skip
def test_a_file_with_special_keys_adds_these_to_the_one_it_extends(group, name, kinds, special):
    own = OmegaConf.load(CONF / group / f"{name}.yaml")
    base = OmegaConf.load(CONF / group / f"{own.defaults[0]}.yaml")
    del own["defaults"]
    assert {str(key) for key in own} == set(special)
    plain = read_kind(group, base, kinds)
    assert read_kind(group, OmegaConf.merge(base, own), kinds) == replace(plain, **special)


def test_the_baselines_config_stays_what_it_was():
    """Its digest names it in every store: keys are added in files of their own."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("train", ["+exp=baseline"])
    names = ("seed", "model", "data", "optim", "schedule", "loop")
    sections = {name: config[name] for name in names}
    said = json.dumps(OmegaConf.to_container(OmegaConf.create(sections)), sort_keys=True)
    assert hashlib.sha256(said.encode()).hexdigest()[:16] == "f9f54bbedd238d93"


def test_a_path_left_open_in_the_yaml_asks_for_it():
    config = OmegaConf.load(CONF / "data" / "text.yaml")
    with pytest.raises(BadInput, match=r"`data\.path` has no value") as caught:
        build_data(config, seq_len=128, seed=0)
    assert caught.value.hints == ("give data.path=VALUE",)
