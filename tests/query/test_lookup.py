from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expdb.errors import Ambiguous, BadInput, ExpdbError, NotFound
from expdb.index.reader import Reader, open_reader
from expdb.query.lookup import lookup, lookup_all, lookup_many, resolve_rows
from expdb.store.resolve import resolve
from expdb.store.store import Store
from tests.query.conftest import CAST, HEAD, cast_run, set_ref
from tests.query.made import make_run, write_run


def said(reader: Reader, *words: str) -> list[str]:
    return [item.said for item in lookup_many(reader, words)]


def test_words_of_a_comparison_take_the_newest_seed_all_have(cast: Reader) -> None:
    assert said(cast, "baseline", "exp02_cosine") == [
        "baseline = k3f9x2m7qd (ref baseline: exp baseline, seed 0)",
        "exp02_cosine = d6v3m9s2xk (exp exp02_cosine, seed 0: the seed both have)",
    ]
    assert said(cast, "exp01", "exp02_cosine", "exp07_zloss") == [
        "exp01 = t1h6y3cz8r (exp exp01, seed 0)",
        "exp02_cosine = d6v3m9s2xk (exp exp02_cosine, seed 0: the seed all have)",
        "exp07_zloss = g2z8r5n1fs (exp exp07_zloss, seed 0)",
    ]


def test_two_experiments_with_several_seeds_take_the_newest_of_the_common_ones(
    store: Store,
) -> None:
    for run in ("k3f9x2m7qd", "m8c2v5tq1n", "p2x7d9wk4h", "d6v3m9s2xk", "q9r1c4h7tb"):
        write_run(store, cast_run(run))
    with open_reader(store) as reader:
        assert said(reader, "baseline", "exp02_cosine") == [
            "baseline = m8c2v5tq1n (exp baseline, seed 1: the seed both have)",
            "exp02_cosine = q9r1c4h7tb (exp exp02_cosine, seed 1)",
        ]


def test_a_word_that_names_one_run_fixes_the_seed(cast: Reader) -> None:
    found = lookup_many(cast, ["q9r1", "exp02_cosine", "exp02_cosine:s2"])
    assert [item.run[:4] for item in found] == ["q9r1", "f0n6", "f0n6"]
    assert found[1].said.endswith("seed 2: no seed all have)")
    assert [item.run for item in lookup_many(cast, ["m8c2", "exp02_cosine"])][1] == "q9r1c4h7tb"


def test_without_a_common_seed_each_keeps_its_own_and_says_so(cast: Reader) -> None:
    found = lookup_many(cast, ["m8c2", "exp07_zloss"])
    assert [item.run for item in found] == ["m8c2v5tq1n", "g2z8r5n1fs"]
    assert found[1].said == "exp07_zloss = g2z8r5n1fs (exp exp07_zloss, seed 0: no seed both have)"


def test_all_may_stand_among_the_words(cast: Reader) -> None:
    found = lookup_many(cast, ["baseline", "exp02_cosine:all"])
    assert [item.run[:4] for item in found] == ["k3f9", "f0n6", "q9r1", "d6v3"]
    assert [item.run[:4] for item in lookup_all(cast, "exp02_cosine:all")] == [
        "f0n6",
        "q9r1",
        "d6v3",
    ]


@pytest.mark.parametrize(
    ("word", "run"),
    [
        ("HEAD", "k3f9"), ("best", "g2z8"), ("best:eval/cloze/acc", "m8c2"), ("t1h6", "t1h6"),
        ("exp01+optim.lr=0.005", "h4q8"), ("baseline:prev", None), ("exp02_cosine:s1", "q9r1"),
        ("exp02_cosine:-2", "d6v3"), ("exp09_fp16", "c7t3"), ("exp06_moe", "v8k2"),
    ],
)  # fmt: skip
def test_words_are_looked_up(cast: Reader, word: str, run: str | None) -> None:
    if run is None:
        with pytest.raises(NotFound, match="has no older run"):
            lookup(cast, word)
    else:
        assert lookup(cast, word).run[:4] == run


def test_errors_name_what_is_near_over_all_runs(cast: Reader) -> None:
    with pytest.raises(NotFound) as error:
        lookup(cast, "exp1")
    assert error.value.hints[0].startswith("nearest: exp01 (2 runs)")


def test_at_best_takes_the_best_checkpoint_that_is_kept(store: Store) -> None:
    from expdb.store.files import write_json

    curve = {100: 2.47, 150: 2.284, 300: 2.871}
    path = write_run(
        store,
        make_run("e7s5g2p0va", experiment="exp03", points={"val/loss": curve}),
        points={"val/loss": curve},
    )
    for step in (100, 300):
        folder = path / "checkpoints" / f"step={step}"
        folder.mkdir(parents=True)
        (folder / "model.pt").write_bytes(b"x" * 10)
        body = {
            "format": 1,
            "step": step,
            "attempt": 1,
            "created_at_ms": 0,
            "parts": {},
            "files": {"model.pt": {"bytes": 10, "sha256": "0"}},
        }
        write_json(folder / "manifest.json", body)
    with open_reader(store) as reader:
        assert reader.rows("SELECT step, complete FROM checkpoints ORDER BY step") == [
            (100, True),
            (300, True),
        ]
        assert lookup(reader, "exp03@best").step == 100
        assert lookup(reader, "exp03@last").step == 300
        with pytest.raises(
            NotFound, match=r"exp03 \(e7s5\) has no checkpoint 150; it has 100, 300"
        ):
            lookup(reader, "exp03@150")


WORDS = st.one_of(
    st.sampled_from([run for run, *_ in CAST]),
    st.builds(
        lambda run, n: run[:n], st.sampled_from([run for run, *_ in CAST]), st.integers(1, 9)
    ),
    st.sampled_from(
        sorted(
            {entry[1] + entry[2] for entry in CAST}
            | {"HEAD", "best", "nothing", "", "\ud800", "a:b"}
        )
    ),
)
SELECTORS = st.lists(
    st.sampled_from(["s0", "s1", "s2", "prev", "-2", "parent", "best", "all"]), max_size=2
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(WORDS, SELECTORS, st.sampled_from(["", "@300", "@best", "@last"]))
def test_looking_at_few_runs_gives_what_all_runs_give(
    cast: Reader, word: str, selectors: list[str], step: str
) -> None:
    whole = ":".join([word, *selectors]) + step
    outcomes: list[object] = []
    for ask in (
        lambda: lookup(cast, whole, head=HEAD),
        lambda: resolve(whole, resolve_rows(cast), cast.refs, head=HEAD),
    ):
        try:
            outcomes.append(ask())
        except ExpdbError as error:
            outcomes.append((type(error), error.message, error.hints))
    assert outcomes[0] == outcomes[1]


def test_a_word_that_fits_two_variants_is_refused(store: Store) -> None:
    for run, variant in (("s4t9aaaaaa", "+optim.wd=0.01"), ("w7n3aaaaaa", "+optim.wd=0.3")):
        write_run(store, make_run(run, experiment="exp08_wd", variant=variant, value=1.8))
    set_ref(store, "t", "s4t9aaaaaa", kind="tag")
    with open_reader(store) as reader:
        with pytest.raises(Ambiguous, match="was run only with overrides, in 2 variants"):
            lookup(reader, "exp08_wd")
        assert (
            lookup(reader, "t").said == "t = s4t9aaaaaa (tag t: exp exp08_wd+optim.wd=0.01, seed 0)"
        )
        with pytest.raises(BadInput, match="is no selector"):
            lookup(reader, "t:nope")
