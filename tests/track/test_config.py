"""A caller's config as expdb keeps it, from every kind of object, and left as it was."""

from __future__ import annotations

import argparse
import copy
import json
import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from omegaconf.basecontainer import BaseContainer

from expdb.digest import Missing, Secret, Stub, Unresolved, digest
from expdb.errors import BadInput
from expdb.track.config import read_config

CASES = {"a": "???", "b": "${a}", "c": "${oc.env:NOT_SET_HERE}", "d": "${oc.env:HOME}",
         "e": "${now:%H}", "f": "${unknown:1}", "g": 1}  # fmt: skip


class Size(Enum):
    SMALL = 1


@dataclass
class Optim:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)


@dataclass
class Config:
    optim: Optim = field(default_factory=Optim)
    size: Size = Size.SMALL


def digest_of(cfg: Any) -> str:
    return digest(read_config(cfg).canonical)


# ------------------------------------------------------------------------- what has no value


def test_missing_and_unresolved_values_are_marked_and_stop_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    kept = read_config(OmegaConf.create(CASES))
    assert kept.flat == {
        "a": Missing(),
        "b": Missing(),
        "c": Unresolved("${oc.env:NOT_SET_HERE}"),
        "d": "/home/ada",
        "e": Stub("${now:%H}"),
        "f": Unresolved("${unknown:1}"),
        "g": 1,
    }
    assert yaml.safe_load(kept.unresolved_yaml) == CASES
    lines = kept.yaml.splitlines()
    assert [line for line in lines if "NOT_SET_HERE is not set" in line and line.startswith("# c:")]
    assert [line for line in lines if "unknown" in line and line.startswith("# f:")]
    assert digest_of(OmegaConf.create(CASES)) == digest(kept.canonical)
    # A dict can hold the text itself, which is another thing.
    assert digest_of({**CASES, "a": "???"}) != digest(kept.canonical)


def test_stubs_go_through_chains() -> None:
    cfg = OmegaConf.create(
        {
            "out": "${hydra:runtime.output_dir}/x", "again": "${out}/y", "list": ["${now:%H%M}-a"],
            "whole": "${sub}", "sub": {"t": "${hydra:sweep.subdir}", "lr": 1},
            "cwd": "${hydra:runtime.cwd}",
        }
    )  # fmt: skip
    flat = read_config(cfg).flat
    assert flat["out"] == Stub("${hydra:runtime.output_dir}/x")
    assert flat["again"] == Stub("${hydra:runtime.output_dir}/x/y")
    assert flat["list"] == [Stub("${now:%H%M}-a")]
    assert flat["whole.t"] == flat["sub.t"] == Stub("${hydra:sweep.subdir}")
    assert flat["whole.lr"] == 1
    assert flat["cwd"] == Stub("${hydra:runtime.cwd}")


def test_environment_variables_count_by_value_and_secret_ones_by_a_marker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cfg = {"data": "${oc.env:DATA,none}", "auth": "Bearer ${oc.env:MY_TOKEN,none}"}
    found = []
    for data, token in (("/a", "FAKE-TOKEN-1"), ("/a", "FAKE-TOKEN-2"), ("/b", "FAKE-TOKEN-1")):
        monkeypatch.setenv("DATA", data)
        monkeypatch.setenv("MY_TOKEN", token)
        found.append(digest_of(OmegaConf.create(cfg)))
    monkeypatch.setenv("DATA", "/a")
    monkeypatch.delenv("MY_TOKEN")
    found.append(digest_of(OmegaConf.create(cfg)))
    assert found[0] == found[1] == found[3] != found[2]


def test_a_config_that_contains_itself_ends() -> None:
    flat = read_config(OmegaConf.create({"a": {"x": "${b}"}, "b": {"y": "${a}", "z": 2}})).flat
    assert flat["b.z"] == 2
    assert isinstance(flat["a.x.y"], Unresolved)
    loop: dict[str, Any] = {"n": 1}
    loop["self"] = loop
    assert read_config(loop).flat == {"n": 1, "self": Unresolved("...")}


# ------------------------------------------------------------------------- kinds of config


def test_one_config_has_one_digest_whatever_object_holds_it() -> None:
    tree = {"optim": {"lr": 0.1, "betas": [0.9, 0.95]}, "size": "SMALL"}
    args = argparse.Namespace(optim=argparse.Namespace(lr=0.1, betas=(0.9, 0.95)), size=Size.SMALL)
    forms = [tree, OmegaConf.create(tree), OmegaConf.structured(Config), Config(), args,
             {"size": "SMALL", "optim": OmegaConf.create(tree["optim"])}]  # fmt: skip
    assert len({digest_of(form) for form in forms}) == 1
    assert read_config(None).canonical == "{}"


@pytest.mark.parametrize("cfg", [3, "text", [1], Config])
def test_what_is_no_config_is_refused(cfg: Any) -> None:
    with pytest.raises(BadInput, match="the config is"):
        read_config(cfg)


def test_values_that_are_not_plain_are_named_and_told_apart() -> None:
    torch = pytest.importorskip("torch")
    tree = {"bf16": torch.bfloat16, "fp32": torch.float32, "fn": os.path.join, "object": object(),
            "np": np.float32(0.5), "array": np.arange(3), "path": Path("/x")}  # fmt: skip
    flat = read_config(tree).flat
    assert flat["bf16"] == Unresolved("torch.bfloat16")
    assert flat["fp32"] != flat["bf16"]
    assert flat["fn"] == Unresolved("posixpath.join")
    assert flat["object"] == Unresolved("builtins.object")
    assert (flat["np"], flat["array"], flat["path"]) == (0.5, [0, 1, 2], "/x")


def test_types_stay_as_the_library_gives_them(tmp_path: Path) -> None:
    text = "\n".join(
        ["lr: 1e-3", "password_file: '1E234'", "version: 1.10", "flag: no", "x: 0_e0", "limit: inf",
         "limit2: .inf", "name: 'None'", "gone: null", "zip: '00123'", "octal: 00123"]
    )  # fmt: skip
    (tmp_path / "c.yaml").write_text(text)
    own = OmegaConf.load(tmp_path / "c.yaml")
    flat = read_config(own).flat
    assert {key: (type(value), value) for key, value in flat.items()} == {
        key: (type(value), value) for key, value in OmegaConf.to_container(own).items()
    }
    assert (flat["lr"], flat["password_file"], flat["name"]) == (0.001, "1E234", "None")
    assert (flat["gone"], flat["zip"]) == (None, "00123")


def test_overrides_of_any_spelling_and_order_have_one_digest(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("optim: {lr: 0.1, wd: 0}\nloop: {num_workers: 2}\nseed: 0\n")

    def of(*overrides: str) -> str:
        with initialize_config_dir(str(tmp_path), version_base="1.3"):
            cfg = compose("c", list(overrides))
        return digest(read_config(cfg).canonical, ignore=["loop.num_workers"])

    first = of("optim.lr=1e-3", "optim.wd=1")
    assert of("optim.wd=1.0", "optim.lr=0.001") == first
    assert of("optim.lr=1.0e-3", "optim.wd=1", "loop.num_workers=4", "seed=7") == first
    assert of("optim.lr=1e-4", "optim.wd=1") != first
    assert of("optim.lr='1e-3'", "optim.wd=1") != first


def test_long_deep_and_odd_values_are_kept_whole() -> None:
    deep: Any = "bottom"
    for level in range(8):
        deep = {f"l{level}": deep}
    tree = {
        "betas": [index / 7 for index in range(45)], "prompt": "word\n" * 2400, "deep": deep,
        "empty": "", "k" * 600: "long key", "many": {f"key{index}": index for index in range(5000)},
        "odd": "\ud800\x1b[31m", "token: x": "a key: b",
    }  # fmt: skip
    kept = read_config(OmegaConf.create(tree))
    assert kept.tree == tree
    assert len(kept.flat) == 5007
    assert kept.flat["deep.l7.l6.l5.l4.l3.l2.l1.l0"] == "bottom"
    assert kept.yaml.count("  key") == 5000


# ------------------------------------------------------------------------------- secrets


def test_secrets_are_markers_everywhere_and_do_not_change_the_digest() -> None:
    def config(key: str, password: str) -> dict[str, Any]:
        return {
            "tracker": {"key": key, "note": f"see {key}", "list": [{"token": key}, [key]]},
            "db": f"proto://u:{password}@h/x", "say": f"pw {password}!", key: 1,
            "credentials": {"user": "ada", "rest": ["x-1234", 5]}, "ref": "${tracker.key}",
            "model": {"use_cls_token": True, "num_memory_tokens": 4, "pad_token": "<pad>"},
            "monitor": {"key": "val/loss"}, "metric": "val/loss", "sort_key": "step", "token": 7,
        }  # fmt: skip

    one = read_config(OmegaConf.create(config("FAKE-KEY-0001", "FAKE-PW")))
    two = read_config(config("OTHER-KEY-22", "FAKE-PASS-2"))
    for text in (one.canonical, one.yaml, one.unresolved_yaml, json.dumps(str(one.tree))):
        assert "FAKE" not in text
        assert "x-1234" not in text
    flat = one.flat
    assert flat["tracker.key"] == flat["credentials.user"] == Secret()
    assert flat["tracker.list"] == [{"token": Secret()}, ["<redacted>"]]
    assert flat["tracker.note"] == "see <redacted>"
    assert flat["db"] == "proto://<redacted>@h/x"
    assert (flat["model.use_cls_token"], flat["model.num_memory_tokens"]) == (True, 4)
    assert (flat["model.pad_token"], flat["sort_key"], flat["token"]) == ("<pad>", "step", 7)
    assert (flat["monitor.key"], flat["metric"]) == (Secret(), "val/loss")
    # A reference in an OmegaConf config is plain text in a dict.
    assert flat["ref"] == "<redacted>"
    assert digest(one.canonical) == digest_of(
        OmegaConf.create(config("OTHER-KEY-22", "FAKE-PASS-2"))
    )
    assert two.flat["ref"] == "${tracker.key}"


@pytest.mark.parametrize(
    "written",
    [
        "sk-FAKE-${n}",
        "${oc.env:UNSET_HERE,FAKE-default}",
        "pre-FAKE-${now:%H}",
        "${oc.decode:FAKE}",
    ],
)
def test_a_secret_that_is_partly_an_interpolation_is_not_kept(written: str) -> None:
    kept = read_config(OmegaConf.create({"api_key": written, "n": 1}))
    assert kept.flat["api_key"] == Secret()
    assert "FAKE" not in kept.unresolved_yaml + kept.yaml + kept.canonical


def test_a_secret_changed_by_a_resolver_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "fake-token-1")
    OmegaConf.register_new_resolver("shout", lambda text: text.upper(), replace=True)
    cfg = OmegaConf.create({"x": "${shout:${oc.env:MY_TOKEN}}", "t": "${shout:${now:%a}}"})
    assert cfg.x == "FAKE-TOKEN-1"
    assert read_config(cfg).flat == {"x": Secret(), "t": Stub("${shout:${now:%a}}")}


def test_the_callers_config_and_resolvers_are_left_as_they_were() -> None:
    drawn = iter(range(100))
    OmegaConf.register_new_resolver(
        "draw", lambda: f"name{next(drawn)}", use_cache=True, replace=True
    )
    OmegaConf.register_new_resolver("of", lambda text: f"<{text}>", use_cache=True, replace=True)
    cfg = OmegaConf.create(
        {"name": "${draw:}", "key": "FAKE", "now": "${of:${now:%H}}", "sub": {"n": "${name}"}}
    )
    OmegaConf.set_readonly(cfg, True)
    seen = cfg.name
    before, raw = dict(BaseContainer._resolvers), OmegaConf.to_container(cfg, resolve=False)
    cache = copy.deepcopy(OmegaConf.get_cache(cfg))
    kept = read_config(cfg)
    part = read_config(cfg.sub)
    assert OmegaConf.to_container(cfg, resolve=False) == raw
    assert OmegaConf.get_cache(cfg) == cache
    assert before == BaseContainer._resolvers
    # What the program saw is kept, not another draw; a time is a stub all the same.
    assert cfg.name == seen == kept.flat["name"] == part.flat["n"]
    assert kept.flat["now"] == Stub("<${now:%H}>")
    tree = {"a": {"password": "x1y2"}, "l": [1, {"key": "K1"}]}
    same = copy.deepcopy(tree)
    read_config(tree)
    assert tree == same
