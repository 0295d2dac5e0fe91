"""One channel over time, on a clock of the test: its limit, failures, merging, and nothing lost."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from expdb.notify.address import Reach
from expdb.notify.channel import channels_of
from expdb.notify.delivery import Delivery
from expdb.notify.ledger import LONGEST_WAIT_MS
from expdb.notify.source import Source
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.marks import add_event
from tests.notify.stubs import Web

STEP = re.compile(r"at step (\d+) of")
FREQUENCY = b'{"errcode":45009,"errmsg":"api freq out of limit"}'


class World:
    """A store with one run, a channel to a stub, and a clock."""

    def __init__(self, root: Path, web: Web) -> None:
        self.now = 1_795_000_000.0
        self.web = web
        self.layout = StoreLayout(root)
        self.run = RunLayout(self.layout.run_dir("exp03", "e7s5g2p0va"))
        self.run.root.mkdir(parents=True)
        self.source = Source(self.run, "exp03")
        self.url = web.url()
        self.posts: list[float] = []

    def delivery(self, name: str = "team", **more: Any) -> Delivery:
        body = {"kind": "wecom", "url_env": "URL", **more}
        reach = Reach(env={"URL": self.url}, base=self.layout.root, timeout_s=5)
        made = Delivery(
            channels_of({name: body})[0], self.layout, reach, clock=lambda: self.now
        )  # fmt: skip
        made.begin()
        return made

    def alert(self, step: int, **facts: Any) -> None:
        facts = {"created_at_ms": int(self.now * 1000), **facts}
        add_event(self.run, step, "warn", "alert", f"at {step}", facts)
        self.source.read()

    def told(self) -> list[int]:
        """The steps that the other side was told, in order."""
        return [int(step) for text in self.web.texts for step in STEP.findall(text)]

    def round(self, delivery: Delivery, **more: Any) -> Any:
        found = delivery.round([self.source], **more)
        self.posts += [self.now] * found.num_posts
        return found


@pytest.fixture
def world(store_root: Path, web: Web) -> World:
    return World(store_root, web)


def test_25_alerts_in_a_minute_are_20_posts_at_most_and_none_is_lost(world: World) -> None:
    team = world.delivery()
    for step in range(25):
        world.alert(step)
        world.round(team)
        world.now += 2.4
    assert len(world.web.got) == 20
    left = world.round(team)
    assert left.num_waiting == 5
    assert 0 < left.wait_s <= 61
    while left.wait_s is not None:
        world.now += left.wait_s
        left = world.round(team)
    assert world.told() == list(range(25))
    assert len(world.web.got) == 21
    assert "5 alerts of e7s5 exp03" in world.web.texts[-1]
    for at in world.posts:
        assert sum(at <= other < at + 60 for other in world.posts) <= 20


def test_a_few_at_once_go_singly_and_many_in_as_few_posts_as_hold_them(world: World) -> None:
    team = world.delivery()
    for step in range(5):
        world.alert(step)
    assert world.round(team).num_posts == 5
    for step in range(5, 105):
        world.alert(step)
    found = world.round(team)
    assert found.num_told == 100
    assert found.num_posts <= 6
    assert world.told() == list(range(105))
    assert all(len(text.encode()) <= 2048 for text in world.web.texts)
    assert world.round(team).num_posts == 0


def test_what_comes_too_often_for_wecom_is_asked_again_a_minute_later(world: World) -> None:
    team = world.delivery()
    world.alert(1)
    world.web.answers = [(200, FREQUENCY)]
    found = world.round(team)
    assert (found.num_told, found.num_waiting, found.wait_s) == (0, 1, 60)
    assert found.trouble.startswith("errcode 45009")
    world.now += 59
    assert world.round(team, force=True).num_posts == 0  # not at the end of a run either
    world.now += 2
    found = world.round(team)
    assert (found.num_told, found.trouble) == (1, "")
    assert world.told() == [1, 1]


def test_a_channel_that_is_down_is_tried_less_and_less_and_loses_nothing(world: World) -> None:
    url, world.url = world.url, "http://127.0.0.1:1/send?key=k"
    team = world.delivery()
    waits = []
    for step in range(12):
        world.alert(step)
        found = world.round(team)
        assert found.num_posts == 1
        assert found.trouble == "Connection refused"
        waits.append(found.wait_s)
        assert world.round(team).num_posts == 0  # not before its time
        world.now += found.wait_s
    assert waits[:4] == [2, 4, 8, 16]
    assert waits[-1] == LONGEST_WAIT_MS / 1000
    assert found.failing_s > 600
    world.url = url
    again = world.delivery()  # of another process
    found = world.round(again)
    assert (found.num_told, found.num_posts, found.trouble) == (12, 1, "")
    assert world.told() == list(range(12))


def test_two_who_deliver_tell_each_thing_once(world: World) -> None:
    one, other = world.delivery(), world.delivery()
    seen = Source(world.run, "exp03")
    for step in range(6):
        world.alert(step)
        seen.read()
        (one if step % 2 else other).round([world.source if step % 2 else seen])
        (other if step % 2 else one).round([seen if step % 2 else world.source])
    assert world.told() == list(range(6))
    world.web.gate.clear()
    world.web.arrived.clear()
    world.alert(6)
    seen.read()
    busy = threading.Thread(target=lambda: one.round([world.source]))
    busy.start()
    assert world.web.arrived.wait(10)
    found = other.round([seen])
    assert (found.num_posts, found.num_waiting, found.wait_s) == (0, 1, 1.0)
    world.web.gate.set()
    busy.join()
    assert other.round([seen]).num_posts == 0
    assert world.told() == list(range(7))


def test_what_was_before_a_channel_is_no_news_and_another_channel_has_its_own(
    world: World,
) -> None:
    world.alert(1)
    world.now += 100
    team = world.delivery()
    assert world.round(team).num_posts == 0
    world.alert(2)
    world.round(team)
    world.now += 100
    other = world.delivery("Other team/../x")
    world.alert(3)
    world.round(other)
    assert world.told() == [2, 3]
    world.round(team)
    assert world.told() == [2, 3, 3]
    names = sorted(path.name for path in world.layout.notify.iterdir())
    assert names == ["%4Fther%20team%2F..%2Fx", "team"]


def test_a_ledger_that_cannot_be_written_tells_nothing_twice(world: World) -> None:
    team = world.delivery()
    for name in ("e7s5g2p0va.json", "posts.json"):
        path = world.layout.notify / "team" / name
        path.unlink(missing_ok=True)
        path.mkdir()
    for step in range(22):
        world.alert(step)
        world.round(team)
    assert world.told() == list(range(20))
    (world.layout.notify / "team/e7s5g2p0va.json").rmdir()
    world.now += 62
    world.round(team)
    assert world.told() == list(range(22))
    assert (world.layout.notify / "team/e7s5g2p0va.json").is_file()


def test_a_line_counts_when_it_is_whole_and_damage_is_passed_over(world: World) -> None:
    team = world.delivery()
    world.alert(1)
    with world.run.events.open("ab") as file:
        file.write(b'{"step": 2, "severity"')
    world.source.read()
    world.round(team)
    world.alert(3)  # ends the line that was cut off
    with world.run.events.open("ab") as file:
        file.write(b'nonsense\n[1]\n{"step": "x"}\n\n')
    world.alert(4)
    world.round(team)
    assert world.told() == [1, 3, 4]
    again = Source(world.run, "exp03")
    again.read()
    assert [one.step for one in again.items] == [1, 3, 4]


def test_clocks_that_are_set_back_lose_nothing(world: World) -> None:
    team = world.delivery()
    team.adopt(world.source)
    world.now -= 86_400
    world.alert(1)
    assert world.round(team).num_told == 1
    world.now += 86_400
    world.web.answers = [(500, b"")]
    world.alert(2)
    assert world.round(team).num_told == 0
    world.now -= 86_400
    assert world.round(team).num_told == 1
    late = world.delivery("late")  # its first use, with the run begun before
    late.adopt(world.source)
    world.now -= 10
    world.alert(3)
    assert world.round(late).num_told == 1
    assert world.told() == [1, 2, 2, 3]
