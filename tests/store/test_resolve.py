from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.errors import Ambiguous, BadInput, ExpdbError, NotFound
from expdb.model import Objective, Ref, RunAt, RunState
from expdb.store.ids import ALPHABET, LETTERS
from expdb.store.resolve import ResolveRow, resolve, resolve_all
from expdb.store.runword import Expr, parse
from expdb.text import plain

LOSS = Objective(metric="val/loss")


def row(run: str, experiment: str, minutes: int, **more: object) -> ResolveRow:
    values: dict[str, object] = dict(
        id=run, experiment=experiment, variant="", seed=0, state=RunState.FINISHED,
        created_at_ms=minutes * 60_000, objective=LOSS,
    )  # fmt: skip
    return ResolveRow(**{**values, **more})  # type: ignore[arg-type]


ROWS = (
    row("k3f9x2m7qd", "baseline", 1, value=1.848, checkpoints=(200, 300), best_step=300),
    row("m8c2v5tq1n", "baseline", 2, seed=1, value=1.864, parent="k3f9x2m7qd"),
    row("p2x7d9wk4h", "baseline", 3, seed=2, value=1.856),
    row(
        "t1h6y3cz8r",
        "exp01",
        4,
        value=2.028,
        parent="k3f9x2m7qd",
        checkpoints=(200, 300),
        best_step=300,
    ),
    row("h4q8z1rn6c", "exp01", 5, variant="+optim.lr=0.005", value=1.902, parent="t1h6y3cz8r"),
    row("c7t3b9q5nv", "exp09_fp16", 6, state=RunState.FAILED, value=float("nan")),
    row("s4t9aaaaaa", "exp08_wd", 7, variant="+optim.wd=0.01", value=1.853),
    row("w7n3aaaaaa", "exp08_wd", 8, variant="+optim.wd=0.3", value=1.871),
)
TWIN = row("k3f9t0b6wn", "exp05_overfit", 9, state=RunState.FAILED)
REFS = {
    "baseline": Ref(name="baseline", kind="ref", run="k3f9x2m7qd", step=None, op="b0v4k8s2m1"),
    "paper": Ref(name="paper", kind="tag", run="t1h6y3cz8r", step=300, op="b0v4k8s2m2"),
    "gone": Ref(name="gone", kind="tag", run="z9x4z9x4z9", step=None, op="b0v4k8s2m3"),
}


def run_of(word: str, refs: dict[str, Ref] | None = None, head: RunAt | None = None) -> str:
    return resolve(word, ROWS, refs or {}, head=head).run


@pytest.mark.parametrize(
    ("word", "run"),
    [
        ("exp01", "t1h6y3cz8r"),  # without overrides, though the variant is newer
        ("exp01+optim.lr=0.005", "h4q8z1rn6c"),
        ("baseline", "p2x7d9wk4h"),  # the newest finished
        ("baseline:s1", "m8c2v5tq1n"),
        ("baseline:prev", "m8c2v5tq1n"),
        ("baseline:-2", "k3f9x2m7qd"),
        ("baseline:prev:prev", "k3f9x2m7qd"),
        ("baseline:best", "k3f9x2m7qd"),
        ("exp09_fp16", "c7t3b9q5nv"),  # it never finished: the newest run of it
        ("h4q8:parent", "t1h6y3cz8r"),
        ("h4q8:parent:parent", "k3f9x2m7qd"),
        ("best", "k3f9x2m7qd"),
        ("m8c2:s2", "p2x7d9wk4h"),
        ("t1h6y3cz8r", "t1h6y3cz8r"),
        ("t1h6", "t1h6y3cz8r"),
    ],
)
def test_a_word_names_the_run_that_a_person_means(word: str, run: str) -> None:
    assert run_of(word) == run


def test_classes_are_tried_in_order() -> None:
    rows = [
        *ROWS,
        TWIN,
        row("exp01aaaaa", "HEAD", 20),
        row("baseline00", "best", 21),
        row("exp0taaaaa", "k3f9", 22),
    ]
    assert resolve("HEAD", rows, REFS, head=RunAt(run="h4q8z1rn6c")).run == "h4q8z1rn6c"
    assert resolve("best", rows, REFS, head=None).run == "k3f9x2m7qd"  # not the experiment
    assert (
        resolve("baseline", rows, REFS, head=None).run == "k3f9x2m7qd"
    )  # the ref, not the experiment
    assert (
        resolve("exp01", rows, REFS, head=None).run == "t1h6y3cz8r"
    )  # the experiment, not the id prefix
    assert resolve("k3f9", rows, REFS, head=None).run == "exp0taaaaa"  # the experiment, not two ids


def test_head_follows_the_baseline_until_it_is_set() -> None:
    assert run_of("HEAD", REFS) == "k3f9x2m7qd"
    assert run_of("HEAD") == "p2x7d9wk4h"
    assert run_of("HEAD", REFS, RunAt(run="t1h6y3cz8r", step=300)) == "t1h6y3cz8r"
    with pytest.raises(NotFound, match="HEAD is nowhere yet"):
        resolve("HEAD", (), {}, head=None)


@pytest.mark.parametrize(
    ("word", "said", "is_literal"),
    [
        ("baseline", "baseline = k3f9x2m7qd (ref baseline: exp baseline, seed 0)", False),
        ("exp01", "exp01 = t1h6y3cz8r (exp exp01, seed 0)", False),
        ("exp01@best", "exp01@best = t1h6y3cz8r@300 (exp exp01, seed 0)", False),
        ("paper", "paper = t1h6y3cz8r@300 (tag paper: exp exp01, seed 0)", False),
        ("exp09_fp16", "exp09_fp16 = c7t3b9q5nv (exp exp09_fp16, seed 0, failed)", False),
        ("t1h6", "t1h6 = t1h6y3cz8r (exp exp01, seed 0)", True),
        ("t1h6@200", "t1h6@200 = t1h6y3cz8r@200 (exp exp01, seed 0)", True),
        ("t1h6:parent", "t1h6:parent = k3f9x2m7qd (exp baseline, seed 0)", False),
    ],
)
def test_it_says_what_a_word_became(word: str, said: str, is_literal: bool) -> None:
    found = resolve(word, ROWS, REFS, head=None)
    assert (found.said, found.is_literal) == (said, is_literal)


def test_steps_are_checkpoints_that_exist() -> None:
    assert resolve("exp01@200", ROWS, {}, head=None).step == 200
    assert resolve("exp01@last", ROWS, {}, head=None).step == 300
    with pytest.raises(NotFound) as error:
        resolve("exp01@120", ROWS, {}, head=None)
    assert error.value.message == "exp01 (t1h6) has no checkpoint 120; it has 200, 300"
    assert error.value.hints == ("expdb show exp01@best",)
    with pytest.raises(NotFound, match=r"p2x7.* has no checkpoint"):
        resolve("p2x7@last", ROWS, {}, head=None)


def test_a_best_step_without_a_checkpoint_is_asked_of_the_caller() -> None:
    rows = [row("e7s5g2p0va", "exp03", 1, checkpoints=(100, 300), best_step=150)]
    with pytest.raises(NotFound, match="no checkpoint at its best step 150; it has 100, 300"):
        resolve("exp03@best", rows, {}, head=None)
    assert resolve("exp03@best", rows, {}, head=None, best_checkpoint=lambda _: 100).step == 100


def test_a_prefix_of_two_ids_lists_them() -> None:
    with pytest.raises(Ambiguous) as error:
        resolve("k3f9", (*ROWS, TWIN), {}, head=None)
    assert error.value.message == "k3f9 begins 2 run ids"
    assert [line.split()[:4] for line in error.value.details] == [
        ["k3f9t0b6wn", "exp05_overfit", "✗", "failed"],
        ["k3f9x2m7qd", "baseline", "✓", "finished"],
    ]
    assert error.value.hints == ("one more character is enough: k3f9t",)


def test_several_variants_and_no_plain_run_are_listed() -> None:
    with pytest.raises(Ambiguous) as error:
        resolve("exp08_wd", ROWS, {}, head=None)
    assert error.value.message == "exp08_wd was run only with overrides, in 2 variants"
    assert error.value.hints == ("quote one: 'exp08_wd+optim.wd=0.01'",)
    assert [line.split()[:2] for line in error.value.details] == [
        ["s4t9", "exp08_wd+optim.wd=0.01"],
        ["w7n3", "exp08_wd+optim.wd=0.3"],
    ]


def test_the_only_variant_stands_for_its_experiment() -> None:
    assert resolve("exp08_wd", ROWS[:7], {}, head=None).run == "s4t9aaaaaa"


def test_overrides_may_stand_in_another_order() -> None:
    rows = [row("s4t9aaaaaa", "e", 1, variant="+a=1+b=2"), row("w7n3aaaaaa", "e", 2)]
    assert resolve("e+b=2+a=1", rows, {}, head=None).run == "s4t9aaaaaa"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("exp1", "no run, ref or experiment is called exp1"),
        ("k3f", "no run, ref or experiment is called k3f"),
        ("gone", "tag gone names run z9x4z9x4z9, which is not in the store"),
        ("exp01:s7", "exp01 has no run with seed 7; it has 0"),
        ("exp01:prev", "exp01 (t1h6) has no older run"),
        ("baseline:-9", "baseline (p2x7) has only 2 older runs"),
        ("exp09_fp16:best", "no finished run of exp09_fp16 has a finite val/loss"),
        ("best:val/los", "no finished run of the store has a finite val/los"),
        ("p2x7:parent", "baseline (p2x7) has no parent"),
    ],
)
def test_what_is_not_there_is_named(word: str, message: str) -> None:
    refs = {"gone": REFS["gone"]}
    with pytest.raises(NotFound) as error:
        resolve(word, ROWS, refs, head=None)
    assert error.value.message == message


def test_the_nearest_names_are_hinted() -> None:
    with pytest.raises(NotFound) as error:
        resolve("exp1", ROWS, {}, head=None)
    assert error.value.hints[0].startswith("nearest: exp01 (2 runs)")
    begun = [replace(ROWS[0], experiment="exp10_long", id="z" * 10), *ROWS]
    with pytest.raises(NotFound) as error:
        resolve("exp10", begun, {}, head=None)
    assert error.value.hints[0].startswith("nearest: exp10_long (1 run)")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("k3", "an id takes 4 characters or more: k3f9"),
        ("300", "a step stands behind its run: {newest}@300"),
        ("zz", "expdb ls"),
    ],
)
def test_what_a_word_that_names_nothing_may_have_been(word: str, hint: str) -> None:
    rows = [replace(row, checkpoints=(300,) if row.id.startswith("k3f9") else ()) for row in ROWS]
    with pytest.raises(NotFound) as error:
        resolve(word, rows, {}, head=None)
    assert error.value.hints == (hint.format(newest="k3f9"),)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("", "a run is named by a word"),
        (":s2", "a run is named by a word"),
        ("exp01:s", "s is no selector"),
        ("exp01@soon", "soon is no step"),
        ("baseline:all", "baseline:all names 3 runs; one is needed"),
        ("baseline:all:prev", "nothing can follow `all` in baseline:all:prev"),
    ],
)
def test_what_is_no_run_is_a_usage_error(word: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        resolve(word, ROWS, {}, head=None)
    assert error.value.message == message


def test_all_names_every_run_newest_first() -> None:
    found = resolve_all("baseline:all", ROWS, {}, head=None)
    assert [item.run for item in found] == ["p2x7d9wk4h", "m8c2v5tq1n", "k3f9x2m7qd"]
    assert [item.run for item in resolve_all("exp01", ROWS, {}, head=None)] == ["t1h6y3cz8r"]
    tagged = {"p": Ref(name="p", kind="tag", run="k3f9x2m7qd", step=300, op="b0v4k8s2m1")}
    for word in ("p:all", "k3f9:all"):
        found = resolve_all(word, ROWS, tagged, head=None)
        assert [(item.step, item.is_literal) for item in found] == [(None, False)] * 3


def test_a_metric_that_is_not_the_objective_is_asked_of_the_caller() -> None:
    values = {"k3f9x2m7qd": 0.46, "m8c2v5tq1n": 0.49, "p2x7d9wk4h": 0.473, "c7t3b9q5nv": 0.99}
    found = resolve("baseline:best:eval/acc", ROWS, {}, head=None, metric_values=lambda _: values)
    assert found.run == "m8c2v5tq1n"  # accuracy is better when higher, and a failed run never wins
    assert (
        resolve("best:eval/acc", ROWS, {}, head=None, metric_values=lambda _: values).run
        == "m8c2v5tq1n"
    )


def test_a_tie_goes_to_the_older_run() -> None:
    rows = [row("bbbbbbbbbb", "e", 2, value=0.3), row("cccccccccc", "e", 1, value=0.3)]
    assert resolve("e:best", rows, {}, head=None).run == "cccccccccc"


def test_a_name_that_holds_colons_is_taken_whole() -> None:
    rows = [row("bbbbbbbbbb", "a:s2", 1), row("cccccccccc", "a", 2, seed=2)]
    assert resolve("a:s2", rows, {}, head=None).run == "bbbbbbbbbb"


IDS = st.builds(
    lambda first, rest: first + rest,
    st.sampled_from(LETTERS),
    st.text(ALPHABET, min_size=9, max_size=9),
)
WORDS = st.text("abcs019._+=/-", min_size=1, max_size=12)
SELECTORS = st.one_of(
    st.builds("s{}".format, st.integers(0, 99)),
    st.builds("-{}".format, st.integers(1, 99)),
    st.sampled_from(["prev", "parent", "best", "all", "best:val/loss"]),
)
STEPS = st.one_of(
    st.none(), st.builds(str, st.integers(0, 10**9)), st.sampled_from(["best", "last"])
)


@given(WORDS.filter(lambda word: word != "best"), st.lists(SELECTORS, max_size=4), STEPS)
def test_parse_takes_apart_what_str_puts_together(
    word: str, selectors: list[str], step: str | None
) -> None:
    expr = Expr(word=word, selectors=tuple(selectors), step=step)
    assert parse(str(expr)) == expr


@given(st.text(st.characters(codec=None), min_size=1))
def test_str_gives_back_any_text_that_parses(said: str) -> None:
    try:
        expr = parse(said)
    except BadInput:
        return
    assert str(expr) == said


PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "exp01",
            "baseline",
            "best",
            "HEAD",
            "k3f9",
            "t1h6y3cz8r",
            "val/loss",
            "",
            "+optim.lr=0.005",
        ]
    ),
    SELECTORS,
)
ANY_WORD = st.one_of(
    st.text(),
    st.builds(
        lambda parts, step: ":".join(parts) + (f"@{step}" if step is not None else ""),
        st.lists(PIECES, min_size=1, max_size=5),
        st.one_of(st.none(), st.text(max_size=4), STEPS.map(str)),
    ),
)


@settings(max_examples=300)
@given(ANY_WORD, st.sampled_from([{}, REFS]), st.sampled_from([(), ROWS]))
def test_any_text_resolves_or_is_an_error_of_ours(
    word: str, refs: dict[str, Ref], rows: tuple[ResolveRow, ...]
) -> None:
    ids = {item.id for item in rows}
    try:
        found = resolve(word, rows, refs, head=None)
    except ExpdbError as error:
        lines = [error.message, *error.hints, *error.details]
    else:
        assert found.run in ids
        lines = [found.said]
    assert all(line == plain(line) for line in lines)


@given(st.sets(IDS, min_size=1, max_size=30), st.data())
def test_a_prefix_is_the_run_it_alone_begins(ids: set[str], data: st.DataObject) -> None:
    rows = [row(run, f"e{at}", at) for at, run in enumerate(sorted(ids))]
    run = data.draw(st.sampled_from(sorted(ids)))
    prefix = run[: data.draw(st.integers(4, 10))]
    if sum(other.startswith(prefix) for other in ids) == 1:
        assert resolve(prefix, rows, {}, head=None).run == run
    else:
        with pytest.raises(Ambiguous) as error:
            resolve(prefix, rows, {}, head=None)
        enough = error.value.hints[0].rpartition(" ")[2]
        assert resolve(enough, rows, {}, head=None).run in ids


def test_a_variant_that_never_came_to_its_end_is_passed_over() -> None:
    good = row("a1h6y3cz8r", "exp01", 1, variant="+loop=fast")
    failed = row("b1h6y3cz8r", "exp01", 2, variant="+optim.lr=abc", state=RunState.FAILED)
    assert resolve("exp01", (good, failed), {}, head=None).run == good.id
    other = row("c1h6y3cz8r", "exp01", 3, variant="+optim.lr=0.1")
    with pytest.raises(Ambiguous, match="in 2 variants"):
        resolve("exp01", (good, failed, other), {}, head=None)
