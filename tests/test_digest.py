"""The canonical text and its digest: what makes two configs the same, for ever."""

from __future__ import annotations

import hashlib
import json
import random
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expdb.digest import (
    ABSENT,
    Missing,
    Secret,
    Stub,
    Unresolved,
    canonical,
    counted,
    differing,
    digest,
    flatten,
)

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from([Missing(), Secret(), Stub("${now:%H}"), Unresolved("${a}")])
)  # fmt: skip
KEYS = (
    st.sampled_from(["a", "b", "a.b", "seed", "$float", "$missing", "$$", "1", "", "'", "true"])
    | st.integers(-2, 2) | st.booleans() | st.none() | st.text(max_size=3)
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
TREES = st.dictionaries(KEYS, VALUES, max_size=4)
IGNORE = st.lists(st.sampled_from(["a", "a.b", "b", "b.*", "*.a", "x"]), max_size=2)


class Colour(str, Enum):  # noqa: UP042 - what people write; its str() is no value
    RED = "#f00"


def shuffled(tree: Any, order: random.Random) -> Any:
    if isinstance(tree, dict):
        items = list(tree.items())
        order.shuffle(items)
        return {key: shuffled(value, order) for key, value in items}
    return [shuffled(item, order) for item in tree] if isinstance(tree, list) else tree


@given(TREES, st.randoms(use_true_random=False))
def test_the_order_of_keys_says_nothing(tree: Any, order: random.Random) -> None:
    assert canonical(shuffled(tree, order)) == canonical(tree)


@given(TREES, TREES, IGNORE)
def test_digests_are_equal_exactly_if_no_key_differs(old: Any, new: Any, ignore: list[str]) -> None:
    one, two = canonical(old), canonical(new)
    same = digest(one, ignore=ignore) == digest(two, ignore=ignore)
    assert same == (not differing(one, two, ignore=ignore))
    assert set(differing(one, two, ignore=ignore)) <= {
        *counted(one, ignore=ignore),
        *counted(two, ignore=ignore),
    }


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0), (0, -0.0), (-3, -3.0), (2**52, float(2**52)),
        ([1, 2], (1, 2)), ({1, 2}, {2, 1}), (0.1, 0.1 + 0.0), (1e-3, 0.001), (1e22, 1e22),
        (PurePosixPath("a/b"), "a/b"), (Colour.RED, "RED"), (float("nan"), float("nan")),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
    ],
)  # fmt: skip
def test_spellings_of_one_value(left: Any, right: Any) -> None:
    assert canonical({"x": left}) == canonical({"x": right})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True), (0, False), (1, "1"), (1.0, "1.0"), (True, "true"),
        (None, "null"),
        (None, "None"), (None, ""), ([], {}),
        ([], None), ("a", ["a"]), (0.1, 0.1 + 2**-56),
        (2**53, float(2**53)),
        (float("inf"), float("-inf")), (float("inf"), "inf"), (Missing(), "???"), (Missing(), None),
        (Secret(), "<redacted>"), (Stub("${now:%H}"), "${now:%H}"), (Stub("x"), Unresolved("x")),
        (b"a", "a"), ({1: 0}, {"1": 0}), ({True: 0}, {"true": 0}), ({None: 0}, {"null": 0}),
        ({1: 0}, {1.5: 0}), ({"$missing": True}, Missing()), ({"a.b": 0}, {"a": {"b": 0}}),
        (2**64, 2**64 + 1), ("\ud800", "?"), ("é", "e\u0301"),
    ],
)  # fmt: skip
def test_values_that_are_not_the_same(left: Any, right: Any) -> None:
    one, two = canonical({"x": left}), canonical({"x": right})
    assert one != two
    assert digest(one) != digest(two)
    assert differing(one, two)


def test_absent_missing_and_null_are_three() -> None:
    texts = [canonical({}), canonical({"x": Missing()}), canonical({"x": None})]
    assert len({digest(text) for text in texts}) == 3
    assert differing(texts[0], texts[2]) == {"x": (ABSENT, None)}
    assert flatten(texts[1]) == {"x": Missing()}


def test_the_seed_and_ignored_keys_are_left_out_with_all_below_them() -> None:
    base = {"optim": {"lr": 0.1}, "loop": {"steps": 3}}
    more = {
        "optim": {"lr": 0.1}, "loop": {"steps": 3, "num_workers": 8}, "seed": 5,
        "log": {"dir": "x", "each": {"a": 1}},
    }  # fmt: skip
    ignore = ["loop.num_workers", "log"]
    assert digest(canonical(base), ignore=ignore) == digest(canonical(more), ignore=ignore)
    assert digest(canonical(base)) != digest(canonical(more))
    assert counted(canonical(more), ignore=ignore) == {"optim.lr": 0.1, "loop.steps": 3}
    nested = canonical({"train": {"seed": 1, "lr": 2}})
    assert digest(nested, seed_key="train.seed") == digest(canonical({"train": {"lr": 2}}))
    # What is left out leaves nothing behind, but an empty mapping of the config's own is a value.
    only = canonical({"loop": {"num_workers": 8}})
    assert digest(only, ignore=ignore) == digest(canonical({}))
    assert digest(canonical({"loop": {}})) != digest(canonical({}))


def test_a_pattern_ignores_within_a_key() -> None:
    one = canonical({"a": {"num_workers": 1, "lr": 1}, "b": {"num_workers": 2, "lr": 1}})
    two = canonical({"a": {"num_workers": 7, "lr": 1}, "b": {"num_workers": 9, "lr": 1}})
    assert digest(one, ignore=["*.num_workers"]) == digest(two, ignore=["*.num_workers"])
    marker = canonical({"a": Missing()})
    assert digest(marker, ignore=["a.*"]) != digest(canonical({}), ignore=["a.*"])


def test_flatten_gives_leaves_under_names_that_are_not_misread() -> None:
    tree = {
        "optim": {"betas": [0.9, 0.95], "lr": 0.003}, "empty": {},
        "list": [{"$x": 1, 2: Missing()}],
        "rope": {"0.5": "a", 0.5: "b", "a.b": "c", "val/loss": 1, "it's": 2}, "$cost": float("inf"),
    }  # fmt: skip
    assert flatten(canonical(tree)) == {
        "$cost": float("inf"),
        "empty": {},
        "list": [{"$x": 1, "2": Missing()}],
        "optim.betas": [0.9, 0.95],
        "optim.lr": 0.003,
        "rope.'0.5'": "a",
        "rope.0.5": "b",
        "rope.'a.b'": "c",
        "rope.'it''s'": 2,
        "rope.val/loss": 1,
    }
    assert flatten(canonical({})) == {}
    assert [str(marker) for marker in (Missing(), Secret(), Stub("${now:%H}"))] == [
        "???",
        "<redacted>",
        "${now:%H}",
    ]


def test_the_text_is_plain_ascii_json() -> None:
    text = canonical({"name": "größe\ud800", "x": 1e-7, "n": None, "m": Missing(), 3: b"\x00"})
    assert text.isascii()
    assert json.loads(text) == {
        "$i3": {"$bytes": "00"},
        "m": {"$missing": True},
        "n": None,
        "name": "größe\ud800",
        "x": 1e-7,
    }


GOLDEN = {
    "v1:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a": {},
    "v1:e24cd7a9ab71e1993f9aee935f75c07c6652b46fc2d111643448cf4d5983c58b": {
        "model": {"kind": "dense", "d": 96, "dropout": 0.0},
        "optim": {"lr": 0.003, "betas": [0.9, 0.95], "eps": 1e-8},
        "loop": {"max_steps": 300, "clip": None, "precision": "bf16", "compile": True},
        "seed": 0,
    },
    "v1:d1cda17ece79d87bf311ae37bb3955133cf748de82471ba9a71d02e6c3158aa9": {
        "missing": Missing(), "secret": Secret(), "stub": Stub("${now:%Y}"),
        "unresolved": Unresolved("${oc.env:X}", "not set"), "big": 2**70, "tiny": 5e-324,
        "nan": float("nan"), "bytes": b"\xff", 2: "int", True: "bool", None: "none", 0.5: "float",
        "$dollar": "ü", "list": [{"a": [1.5, "1.5", False]}, []],
    },
}  # fmt: skip


def test_the_digest_is_sha256_of_the_text_as_documented() -> None:
    text = '{"a":{"lr":0.003,"on":true},"b":[1,"1",null,{"$missing":true}]}'
    tree = {"b": [1.0, "1", None, Missing()], "seed": 7, "a": {"on": True, "lr": 3e-3}}
    assert digest(canonical(tree)) == f"v1:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.mark.parametrize("expected", GOLDEN)
def test_digests_stay_what_they_are(expected: str) -> None:
    """A failure changes the digest of every stored run: it takes a new version, not a new text."""
    assert digest(canonical(GOLDEN[expected])) == expected
