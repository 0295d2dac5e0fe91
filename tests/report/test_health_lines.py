"""`show --health` as text and for programs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from expdb.model import Event, RunState
from expdb.query.health_results import Around, Cause, Health, Looked, Repeat
from expdb.query.history_results import Healthy
from expdb.report import health
from expdb.report.json import dumps
from expdb.text import cells

EVENTS = (
    (151, "critical", "loss_spike", "train/loss 5.630, z 30.7 > 6", "critical since 201"),
    (151, "warn", "grad_spike", "train/grad_norm 41.20, z 22.4 > 6", "over at 154"),
    (174, "critical", "divergence", "median of 25 steps 4.312 > 2.390, 3 in a row", "open"),
    (180, "info", "update_ratio", "0.02 > 0.01", "open"),
)
RATE = Cause(
    name="too high a rate",
    area="hyper-parameters",
    said="the learning rate is too high here",
    score=17,
    reasons=(
        "divergence, loss_spike, grad_spike point to it",
        "train/lr 0.003 to 0.09 at 150, 1 step before",
    ),
    command="expdb resume e7s5@100 --lr-scale 0.5",
    label="rate",
)
BATCH = Cause(
    name="a bad batch",
    area="data",
    said="a bad batch",
    score=5,
    reasons=("loss_spike, grad_spike point to it",),
    against=("train/lr 0.003 to 0.09 at 150, 1 step before",),
    command="expdb resume e7s5@100 --skip-batches 52",
    label="data",
)
LOOKED = (
    Looked(rule="loss_spike", outcome="fired"),
    *(Looked(rule=name, outcome="fine") for name in ("non_finite", "clip_saturated", "data_bound")),
    Looked(rule="plateau", outcome="not judged", why="300 of 1,000 values of train/loss"),
    Looked(rule="moe_imbalance", outcome="not judged", why="no metric layer/*/moe_max_vio"),
    Looked(rule="amp_scale", outcome="not judged", why="no metric amp/scale"),
)


def event(step, severity, rule, message, now) -> Event:
    return Event(step=step, severity=severity, rule=rule, message=message, now=now)


def sick(cast, **change) -> Health:
    made = Health(
        run=cast.run("e7s5g2p0va"),
        found=tuple(event(*one) for one in EVENTS),
        looked_by="live",
        looked=LOOKED,
        around=Around(
            step=151,
            steps=(149, 150, 151, 152, 201),
            values={
                "train/loss": (2.251, 2.302, 5.63, 5.41, 4.3),
                "train/lr": (0.003, 0.09, 0.09, 0.09, 0.003),
                "val/loss": (None, 2.284, None, None, None),
            },
            batches=(151, 151),
            layers=("blocks.0.attn", "blocks.1.attn"),
        ),
        good=100,
        healthy=Healthy(run="k3f9x2m7qd", name="baseline", keys=("schedule.jump_factor",)),
        repeats=(),
        causes=(RATE, BATCH),
        commands=(
            ("repeat", "expdb probe repro e7s5"),
            ("data", BATCH.command),
            ("rate", RATE.command),
        ),
    )
    return replace(made, **change)


def well(cast, **change) -> Health:
    made = Health(
        run=cast.run("k3f9x2m7qd", events=()), found=(), looked_by="live", looked=LOOKED[1:]
    )
    return replace(made, **change)


def test_a_run_with_trouble(cast, screen, golden):
    golden("show-health-100.txt", health.render(sick(cast), screen()))


@pytest.mark.parametrize("width", [50, 80, 100])
def test_no_line_is_wider_than_the_terminal(cast, screen, width):
    long = replace(RATE, reasons=("x" * 300,))
    lines = health.render(sick(cast, causes=(long,)), screen(width=width))
    assert max(cells(line) for line in lines[1:]) <= width  # the first names the run
    assert not any(line.endswith(" ") for line in lines)


def test_in_a_pipe(cast, screen, golden):
    lines = health.render(sick(cast), screen(terminal=False, ascii=True))
    golden("show-health-pipe.txt", lines)
    assert all(line.isascii() for line in lines)


def test_a_healthy_run_says_what_looked(cast, screen, golden):
    golden("show-health-well-100.txt", health.render(well(cast), screen()))
    assert health.next_commands(well(cast)) == []


def test_the_line_that_decides_stands_last(cast, screen):
    def last(found):
        return health.render(found, screen())[-1]

    assert last(sick(cast)) == "likely  the learning rate is too high here"
    tied = replace(BATCH, score=17)
    assert last(sick(cast, causes=(RATE, tied))) == (
        "likely  the learning rate is too high here; or a bad batch"
    )
    assert last(sick(cast, causes=())) == "unclear  3 events, and no cause that fits"
    assert last(well(cast)) == "healthy  3 rules looked, none warned; 3 could not judge"
    now = replace(well(cast), looked_by="today")
    assert last(now) == (
        "healthy  3 rules looked now, none warned; 3 could not judge;"
        " none is known to have looked while it trained"
    )
    live = well(cast, run=cast.run("x5j2v8c0ke", events=()))
    assert last(live) == "healthy  3 rules looked, none warned so far; 3 could not judge"
    assert last(well(cast, looked=LOOKED[-2:])) == "not judged  no rule has what it needs"
    failed = cast.run("c7t3b9q5nv", events=(), state=RunState.FAILED, reason="odd")
    assert last(well(cast, run=failed)) == "failed  odd"


def test_who_repeated_it_is_said(cast, screen):
    repeats = (
        Repeat(run="m8c2v5tq1n", name="exp03", same=True),
        Repeat(run="p2x7d9wk4h", name="exp03", same=False),
    )
    text = "\n".join(health.render(sick(cast, repeats=repeats), screen()))
    assert "m8c2 exp03 has it too; p2x7 exp03 has it not" in text
    assert "by nobody: the same seed twice comes first" in "\n".join(
        health.render(sick(cast), screen())
    )


def test_many_remarks_do_not_hide_a_warning(cast, screen):
    remarks = tuple(event(step, "info", "update_ratio", "m", "") for step in range(40))
    lines = health.render(sick(cast, found=(*remarks, event(*EVENTS[0]))), screen())
    assert any("loss_spike" in line for line in lines[:6])
    assert any(line.strip() == "40 more: expdb events e7s5" for line in lines)


def test_what_scripts_and_rules_say_is_text(cast, screen):
    evil = "\x1b[31m\u202e\x07"
    found = sick(
        cast,
        found=(event(1, "warn", evil, evil, evil),),
        causes=(replace(RATE, said=evil, reasons=(evil,), against=(evil,)),),
        looked=(
            Looked(rule=evil, outcome="fine"),
            Looked(rule="a", outcome="not judged", why=evil),
        ),
        healthy=Healthy(run="k3f9x2m7qd", name=evil, keys=(evil,)),
        repeats=(Repeat(run="m8c2v5tq1n", name=evil, same=True),),
        problems=(evil,),
    )
    around = replace(found.around, values={evil: (1.0,)}, steps=(1,), layers=(evil,), notes=(evil,))
    text = "\n".join(health.render(replace(found, around=around), screen()))
    assert not any(char in text for char in "\x1b\x07\u202e")
    assert "\\x1b[31m" in text


def test_for_programs(cast, golden):
    text = dumps(health.json_of_health(sick(cast)))
    golden("show-health.json", text.splitlines())
    data = json.loads(text)
    assert data["verdict"] == "likely"
    assert data["causes"][0]["cause"] == "too high a rate"
    assert data["around"]["values"]["val/loss"] == [None, 2.284, None, None, None]
    assert json.loads(dumps(health.json_of_health(well(cast))))["verdict"] == "healthy"
