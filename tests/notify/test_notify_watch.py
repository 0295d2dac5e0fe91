"""All runs of a store watched by other processes: what is new, who died, who stalls; each once."""

from __future__ import annotations

import os
import shutil
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from expdb.actions.watch import Watch
from expdb.notify.address import Reach
from expdb.notify.channel import channels_of
from expdb.store.files import write_json
from expdb.store.journal import VALUES, encode_frame, encode_header, encode_key, encode_template
from expdb.store.layout import RunLayout
from expdb.store.marks import add_event, touch_status
from expdb.store.status import Status, write_status
from expdb.store.store import open_store
from tests.notify.stubs import Web


def watch(root: Path, web: Web | None = None, **more: Any) -> Watch:
    channels = channels_of({"team": {"kind": "wecom", "url_env": "URL"}}) if web else ()
    url = web.url() if web else ""
    reach = Reach(env={"URL": url}, base=root.parent, timeout_s=5)
    return Watch(open_store(root), channels, reach, **more)


def found(watching: Watch) -> list[tuple[str, int | None]]:
    return [(item.rule, item.step) for item in watching.look().items]


def told(web: Web) -> list[str]:
    return [line for text in web.texts for line in text.splitlines() if " of " in line]


def event(layout: RunLayout, step: int, **facts: Any) -> None:
    add_event(layout, step, "warn", "alert", f"at {step}", facts)
    touch_status(layout)


def test_what_happens_from_now_on_is_shown_as_it_comes(make_run_dir: Any, store_root: Path) -> None:
    old, live = make_run_dir("finished"), make_run_dir("running")
    event(old, 1)
    event(live, 2)
    watching = watch(store_root)
    first = watching.look()
    assert (first.items, first.num_runs, first.num_live) == ((), 2, 1)
    event(live, 3)
    event(old, 4)
    assert sorted(found(watching)) == [("alert", 3), ("alert", 4)]
    new = make_run_dir("running")
    event(new, 0)
    assert found(watching) == [("alert", 0)]
    write_status(new, Status(state="finished", last_step=9))
    write_status(live, Status(state="failed", reason="NaN", last_step=8))
    assert sorted(found(watching)) == [("run_failed", 8), ("run_finished", 9)]
    assert found(watching) == []
    assert watching.look().num_live == 0


def test_a_crash_is_told_once_however_many_watch_and_begin_again(
    make_run_dir: Any, store_root: Path, web: Web, dead: Any
) -> None:
    before = make_run_dir("failed")  # no news: it was there when the channel came
    os.utime(before.status_json, (1e9, 1e9))
    gone, stays, hosts = (make_run_dir("running") for _ in range(3))
    one, other = watch(store_root, web), watch(store_root, web)
    assert (found(one), found(other)) == ([], [])
    write_json(gone.attempt(1) / "owner.json", dead)
    event(gone, 5)
    write_json(hosts.attempt(1) / "owner.json", {**dead, "host": "elsewhere"})
    beat = hosts.attempt(1) / "live.json"
    beat.touch()
    os.utime(beat, (time.time() - 900,) * 2)
    assert sorted(found(one)) == [("alert", 5), ("run_crashed", None), ("run_lost", None)]
    assert len(found(other)) == 3
    assert len(told(web)) == 3
    assert sorted(line.split(" of ")[0] for line in told(web)) == [
        "critical: run_crashed", "warn: alert at step 5", "warn: run_lost",
    ]  # fmt: skip
    assert f"expdb resume {gone.id[:4]}" in "\n".join(web.texts)
    again = watch(store_root, web)
    assert found(again) == []
    write_json(stays.attempt(1) / "owner.json", dead)
    (stays.attempt(1) / "log.txt").write_text("x")
    last = watch(store_root, web)  # it died while nobody watched
    assert found(last) == []
    assert told(web)[3:] == [f"critical: run_crashed of {stays.id[:4]} baseline"]
    assert found(one) == [("run_crashed", None)]
    assert len(told(web)) == 4


def silent(layout: RunLayout, ago_s: float) -> None:
    """A journal of 30 steps a tenth of a second apart, the last one some time ago."""
    path = layout.journal(1, 0, 1)
    data = encode_header(run=layout.id, attempt=1, rank=0)
    data += encode_frame(1, encode_key(0, "train/loss") + encode_template(0, [0]))
    for step in range(30):
        record = VALUES.pack(b"V", 0, step, 1_000_000 + step * 100) + struct.pack("<d", 1.0)
        data += encode_frame(step + 2, record)
    path.write_bytes(data)
    os.utime(path, (time.time() - ago_s,) * 2)


@pytest.mark.parametrize("is_said", [False, True])
def test_a_run_that_takes_no_step_is_told_once(
    make_run_dir: Any, store_root: Path, web: Web, is_said: bool
) -> None:
    run = make_run_dir("running")
    write_status(run, Status(state="running", last_step=29))
    silent(run, 10)
    watching = watch(store_root, web)
    assert found(watching) == []
    silent(run, 400)
    if is_said:  # by its own watchdog
        add_event(run, 29, "critical", "stall", "no step", {"state": "open", "opened": 29})
    fresh = watch(store_root, web)
    fresh.look()
    lines = told(web)
    if is_said:
        assert lines == [f"critical: stall at step 29 of {run.id[:4]} baseline"]
        return
    assert lines == [f"critical: run_stalled at step 29 of {run.id[:4]} baseline"]
    assert "no step for 6m40s, and its process lives; a step takes 0.1s as a rule" in web.texts[0]
    for _ in range(2):
        watch(store_root, web).look()
    assert len(web.got) == 1
    silent(run, 350)  # a step came, and none since
    watch(store_root, web).look()
    assert len(web.got) == 2


def test_a_run_that_goes_away_or_is_damaged_ends_nothing(
    make_run_dir: Any, store_root: Path, web: Web
) -> None:
    gone, bad = make_run_dir("running"), make_run_dir("running")
    watching = watch(store_root, web)
    watching.look()
    shutil.rmtree(gone.root)
    bad.status_json.write_text("nonsense")
    new = make_run_dir("running")
    new.run_json.write_text("nonsense")
    assert found(watching) == []
    event(bad, 3)
    bad.status_json.unlink()
    watching.look()
    assert watching.look().num_runs == 2
