"""`events` and `tail` as text."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from expdb.model import Event, RunState
from expdb.query.history_results import EventList, EventRow, FirstTrouble
from expdb.query.tail import End, Told
from expdb.report import events, json_history, tail
from expdb.report.json import dumps
from expdb.text import cells

HOUR_MS = 3_600_000
JUMP = (
    (151, "critical", "loss_spike", "train/loss 5.630, z 30.7 > 6"),
    (151, "warn", "grad_spike", "train/grad_norm 41.20, z 22.4 > 6"),
    (174, "critical", "divergence", "median of 25 steps 4.312 > 2.390, 3 in a row"),
)


def row(cast, step, severity, rule, message, run="e7s5g2p0va", name="exp03_lr_jump") -> EventRow:
    when = cast.now_ms - 5 * HOUR_MS
    event = Event(step=step, severity=severity, rule=rule, message=message, created_at_ms=when)
    return EventRow(run=run, name=name, seed=0, event=event)


def of_one(cast, entries=JUMP, good: int | None = 100, **more) -> EventList:
    rows = tuple(row(cast, *entry) for entry in entries)
    first = FirstTrouble(run="e7s5g2p0va", event=rows[0].event, good=good)
    return EventList(
        rows=rows, num_all=len(rows), num_runs=1, **{"of_one": True, "first": first, **more}
    )


def of_several(cast) -> EventList:
    warn = (112, "warn", "grad_spike", "train/grad_norm 3.418, z 7.1 > 6")
    rows = [row(cast, *entry) for entry in reversed(JUMP)]
    rows.append(row(cast, *warn, "t1h6y3cz8r", "exp01+optim.lr=0.005"))
    return EventList(rows=tuple(rows), num_all=4, num_runs=15)


def test_the_events_of_one_run(cast, screen, golden):
    golden("events-one-100.txt", events.render(of_one(cast), screen()))


def test_in_a_pipe_every_line_has_the_same_fields(cast, screen, golden):
    lines = events.render(of_one(cast), screen(terminal=False, ascii=True))
    golden("events-one-pipe.txt", lines)
    assert {len(re.split(r"  +", line)) for line in lines[:4]} == {4}


@pytest.mark.parametrize("width", [100, 70])
def test_the_events_of_several_runs(cast, screen, golden, width):
    lines = events.render(of_several(cast), screen(width=width))
    assert max(cells(line) for line in lines) <= width
    golden(f"events-several-{width}.txt", lines)


def test_one_step_is_shown_whole(cast, screen, golden):
    found = of_one(cast, JUMP[:2], step=151)
    lines = events.render(found, screen(width=40))
    golden("events-step.txt", lines)


def test_without_a_checkpoint_before_it_says_so(cast, screen):
    lines = events.render(of_one(cast, good=None), screen())
    assert lines[-1] == "good      none: no checkpoint before 151"
    assert events.render(of_one(cast, first=None), screen())[-1].endswith("3 in a row")


def test_no_events_is_a_line_and_no_table(cast, screen):
    nothing = EventList(rows=(), num_all=0, num_runs=15)
    assert events.render(nothing, screen()) == []
    assert events.nothing(nothing) == "no events in 15 runs"
    day = replace(nothing, num_runs=1, is_last_day=True)
    assert events.nothing(day) == "no events in 1 run in the last day"


def test_what_rules_say_is_text(cast, screen):
    evil = row(cast, 1, "warn", "\x1b[31mr", "a\x1b]0;x\x07\n\u202eb", name="\x1b[31mn")
    found = replace(of_several(cast), rows=(evil,))
    whole = of_one(cast, step=1)
    whole = replace(whole, rows=(evil,))
    for lines in (events.render(found, screen()), events.render(whole, screen())):
        text = "\n".join(lines)
        assert not any(char in text for char in "\x1b\x07\u202e")
        assert "\\x1b]0;x\\x07" in text


def advised(cast, command: str) -> EventList:
    """Return events of which the first has a command, as its rule knows one."""
    found = of_one(cast)
    assert found.first is not None
    event = replace(found.first.event, facts={"command": command})
    return replace(found, first=replace(found.first, event=event))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("expdb resume e7s5@100 --lr-scale 0.5", "retry"),
        ("expdb probe loader e7s5", "try"),
        ("expdb events e7s5@151", None),  # what only shows it is said once
        ("", None),
    ],
)
def test_next_is_what_the_rule_advises_and_to_look_at_it(cast, screen, command, said):
    show = ("show", "expdb events e7s5@151")
    advice = [] if said is None else [(said, command)]
    assert events.next_commands(advised(cast, command), screen()) == [*advice, show]


def test_without_advice_next_is_to_look(cast, screen):
    assert events.next_commands(of_one(cast), screen()) == [("show", "expdb events e7s5@151")]
    assert events.next_commands(of_several(cast), screen()) == []
    assert events.ids(of_several(cast)) == ["e7s5g2p0va", "t1h6y3cz8r"]


def test_events_for_programs(cast):
    data = json.loads(dumps(json_history.events(of_one(cast))))
    assert data["schema_version"] == 1
    assert data["first"] == {"step": 151, "rule": "loss_spike", "good_checkpoint": 100}
    assert data["events"][0]["run"] == "e7s5g2p0va"
    assert data["events"][0]["created_at"] == "2027-01-15T03:00:00.000Z"
    lines = events.as_csv(of_several(cast)).splitlines()
    assert lines[0].split(",")[-3:] == ["key", "now", "acknowledged"]
    assert lines[1].endswith(",false")
    assert '"median of 25 steps 4.312 > 2.390, 3 in a row"' in lines[1]
    assert len(lines) == 5
    table = events.as_markdown(of_several(cast))
    assert len(table) == 6
    assert table[2].startswith("| e7s5g2p0va | exp03_lr_jump | 0 | 174 |")


def test_what_somebody_has_seen_is_said(cast, screen):
    found = of_one(cast)
    seen = replace(found.rows[0].event, is_acknowledged=True, now="over at 160")
    shown = replace(found, rows=(replace(found.rows[0], event=seen), *found.rows[1:]))
    lines = events.render(shown, screen())
    assert "over at 160, seen" in lines[1]
    assert json_history.events(shown)["events"][0]["acknowledged"] is True


# ------------------------------------------------------------------------------------------ tail

LINES = (
    "  step 150   eval   val/loss 2.583   vs k3f9 +0.299   eval/cloze/acc 0.380",
    "  step 170   train  loss 1.368   lr 0.003     18.2k tok/s   eta 0:15",
    "  step 180   train  loss 1.291   lr 0.003     18.2k tok/s   wait 34 %   eta 1:04:14",
)
CLEAR = "\x1b[1A\r\x1b[2K"


def on(cast, screen, *, in_place=True, **change):
    run = cast.run("x5j2v8c0ke", **change)
    return tail.Screen(run, screen(), in_place=in_place)


def test_the_head_says_which_run_it_is(cast):
    run = cast.run("x5j2v8c0ke")
    assert tail.head(run, 1, follows=True) == (
        "x5j2v8c0ke exp05_overfit, attempt 1, live; Ctrl-C leaves the run alone"
    )
    ended = cast.run("c7t3b9q5nv")
    assert tail.head(ended, 2, follows=True) == "c7t3b9q5nv exp09_fp16, attempt 2, failed"


def test_without_a_cursor_every_line_stands(cast, screen):
    assert on(cast, screen, in_place=False).lines(LINES) == list(LINES)
    assert on(cast, screen, in_place=False).notice("x") == ["x"]
    assert on(cast, screen, in_place=False).close("x") == ["x"]


def test_on_a_terminal_the_last_train_line_is_the_bar(cast, screen):
    shown = on(cast, screen)
    first = shown.lines(LINES[:2])
    assert first[0] == LINES[0]
    assert "170/300  loss 1.368  18.2k tok/s  eta 0:15" in first[1]
    assert "━" in first[1]
    (second,) = shown.lines(LINES[2:])
    assert second.startswith(CLEAR)
    assert "180/300  loss 1.291  18.2k tok/s  wait 34 %  eta 1:04:14" in second
    evaluated, bar = shown.lines(LINES[:1])
    assert evaluated == CLEAR + LINES[0]
    assert "180/300" in bar
    assert shown.lines([]) == [] or shown.lines([])[0].startswith(CLEAR)


def test_the_bar_goes_with_the_closing_line(cast, screen):
    shown = on(cast, screen)
    shown.lines(LINES)
    said = shown.lines(["", "finished  exp05_overfit x5j2v8c0ke  300 steps in 35s"])
    assert said == [CLEAR, "finished  exp05_overfit x5j2v8c0ke  300 steps in 35s"]
    assert shown.lines(["more"]) == ["more"]
    crashed = on(cast, screen)
    crashed.lines(LINES)
    assert crashed.close("crashed") == [CLEAR + "crashed"]


def test_a_notice_stands_above_the_bar(cast, screen):
    shown = on(cast, screen)
    shown.lines(LINES)
    notice, bar = shown.notice("no step for 5 min")
    assert notice == f"{CLEAR}no step for 5 min"
    assert "180/300" in bar


@pytest.mark.parametrize(
    "line",
    [
        "  step 9   train",
        "  step 999999999999999999999999   train  loss 1",
        "  step 9   train  loss nan   lr x   999999999.9T tok/s   eta 99:99:99",
        "  step 9   train  loss \x1b[31m   eta --:--",
        "  step 9   train  loss 1.2.3",
    ],
)
def test_a_line_that_only_looks_like_one_of_ours_breaks_nothing(cast, screen, line):
    for change in ({}, {"max_steps": None}):
        shown = on(cast, screen, **change).lines([line])
        assert len(shown) == 1
        assert "\x1b[31m" not in shown[0]
        assert cells(shown[0]) <= 100


def test_the_log_of_a_run_is_text(cast, screen):
    evil = "\x1b[2J\x1b]0;x\x07\u202e\rover"
    for in_place in (True, False):
        (line,) = on(cast, screen, in_place=in_place).lines([evil])
        assert line == "\\x1b[2J\\x1b]0;x\\x07\\u202e\\x0dover"


def test_silence_and_death_are_said(cast, screen):
    told = Told(silent_s=300.0, usual_s=0.08)
    assert tail.silence(told, screen()) == "no step for 5 min (usual: 0.08s); it is alive"
    assert tail.silence(Told(silent_s=7300.0), screen()) == "no step for 2 h; it is alive"
    run = cast.run("a9m4y7h3pq")
    end = End(state=RunState.CRASHED, reason="the process died without a word", last_step=170)
    assert tail.closing(run, end, screen()) == (
        "crashed  exp06_moe a9m4y7h3pq  at step 170: the process died without a word"
    )
    assert tail.next_commands(run, end, screen()) == [("resume", "expdb resume a9m4")]
    failed = replace(end, state=RunState.FAILED, last_step=None, reason="")
    assert tail.closing(run, failed, screen()) == "failed  exp06_moe a9m4y7h3pq"
    assert tail.next_commands(run, failed, screen()) == [("look", "expdb show a9m4")]
