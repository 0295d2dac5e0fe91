from __future__ import annotations

import json
from dataclasses import replace

from expdb.query.compare_results import (
    CodeDiff,
    Comparison,
    ConfigDiff,
    FileDiff,
    MetricDiff,
    NamedDiff,
    Verdict,
)
from expdb.query.results import ABSENT, Listing, Outcome
from expdb.report import json as documents


def test_numbers_that_are_not_finite_are_texts():
    made = documents.dumps({"a": [float("nan"), float("inf"), -float("inf"), 1.5, None, True]})
    assert json.loads(made) == {"a": ["NaN", "Infinity", "-Infinity", 1.5, None, True]}


def test_lone_surrogates_and_unknown_values_become_text():
    made = documents.dumps({"name": "a\ud800b", "marker": ABSENT})
    assert json.loads(made) == {"name": "a\\ud800b", "marker": "-"}
    made.encode("utf-8")


def test_times_are_utc():
    assert documents.utc(1_800_000_000_123) == "2027-01-15T08:00:00.123Z"
    assert documents.utc(None) is None


def test_a_listing_has_one_object_a_run(cast):
    listing = Listing(rows=cast.rows, num_all=20, baseline=cast.rows[-1], metric="val/loss")
    data = json.loads(documents.dumps(documents.listing(listing)))
    assert list(data) == ["schema_version", "runs", "num_all"]
    run = next(run for run in data["runs"] if run["id"] == "t1h6y3cz8r")
    assert run["objective"] == {
        "metric": "val/loss",
        "mode": "min",
        "reading": "last",
        "value": 2.028,
        "step": 300,
    }
    assert run["delta"] == {"value": 0.18, "outcome": "worse", "at_step": None, "against": ""}
    assert "delta" not in data["runs"][-1]


def test_a_comparison_tells_absent_from_null(cast):
    loss = MetricDiff(
        key="val/loss",
        values=(1.8, None),
        deltas=(None, None),
        deltas_pct=(None, None),
        better=(None, None),
        outcomes=(None, Outcome.INCONCLUSIVE),
        step=300,
    )
    made = Comparison(
        runs=(cast.run("k3f9x2m7qd"), cast.run("t1h6y3cz8r")),
        objective=cast.loss,
        step=300,
        config=(
            ConfigDiff(key="a", values=(None, ABSENT), differs=True),
            ConfigDiff(key="b", values=(1, 1), differs=False),
            ConfigDiff(key="c", values=(1, True), differs=True),
        ),
        code=CodeDiff(
            same_tree=False,
            files=(FileDiff(status="M", path="x.bin", num_added=None, num_removed=None),),
        ),
        environment=(
            NamedDiff(name="python", values=("3.11", "3.12")),
            NamedDiff(name="torch", values=("2", "2")),
        ),
        data=(),
        metrics=(loss,),
        evals=(),
        num_events=({}, {}),
        verdicts=(Verdict(run="t1h6y3cz8r", outcome=Outcome.INCONCLUSIVE, reason="no value"),),
        noise=None,
    )
    data = json.loads(documents.dumps(documents.comparison(made)))
    assert data["config"] == [
        {"key": "a", "values": [None, None], "absent": [1]},
        {"key": "c", "values": [1, True], "absent": []},
    ]
    assert data["code"]["files"] == [
        {"status": "M", "path": "x.bin", "added": None, "removed": None}
    ]
    assert [item["key"] for item in data["environment"]] == ["python"]
    assert data["metrics"][0]["delta"] is None
    assert data["verdict"]["outcome"] == "inconclusive"
    every = documents.comparison(made, all=True)
    assert len(every["config"]) == 3
    assert len(every["environment"]) == 2
    alone = documents.comparison(replace(made, verdicts=()))
    assert alone["verdict"] is None
