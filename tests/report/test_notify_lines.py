"""The lines of `notify`, and those of a watch."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expdb.actions.watch import Told
from expdb.notify.address import Reach
from expdb.notify.channel import channels_of
from expdb.notify.item import Item
from expdb.query.channels import Declared, channel_rows
from expdb.report import notify as report
from expdb.report.style import Style

SECTION = {
    "team": {"kind": "wecom", "url_env": "EXPDB_WECOM_URL", "rules": ["loss_*", "run_*"]},
    "oncall": {"kind": "email", "url_file": "~/.config/mail-url", "min_severity": "critical"},
    "own": {"kind": "webhook", "url": "http://127.0.0.1:8080/hook", "resolve": False},
    "evil\x1b[31m": {"kind": "file", "path": "alerts.jsonl", "min_severity": "info"},
    "pager": {"kind": "command", "command": ["page", "--quiet"]},
}
ITEM = Item(
    run="e7s5g2p0va", name="exp03_lr_jump", severity="warn", rule="loss_spike", step=151,
    message="train/loss 9.2, z 31 > 6", state="open", key="train/loss", value=9.2,
    created_at_ms=1_795_000_000_000,
)  # fmt: skip


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declared:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr("expdb.notify.relayed.is_installed", lambda: False)
    time.tzset()
    reach = Reach(env={"EXPDB_WECOM_URL": "https://x"}, base=tmp_path)
    return Declared(channels=channels_of(SECTION), where="conf/train.yaml", reach=reach)


def test_the_channels_on_a_terminal_and_in_a_pipe(
    declared: Declared, screen: Any, golden: Any
) -> None:
    rows = list(channel_rows(declared, None))
    now_ms = screen().now_ms
    rows[0] = replace(rows[0], last_post_ms=now_ms - 200_000)
    rows[2] = replace(rows[2], failing_since_ms=now_ms - 4_000_000)
    golden("notify-100.txt", report.render_channels(rows, screen()))
    golden("notify-pipe.txt", report.render_channels(rows, Style(now_ms=now_ms)))
    said = json.dumps(report.json_of_channels(declared, rows), indent=2)
    golden("notify.json", said.splitlines())


def test_the_lines_of_a_watch(declared: Declared, screen: Any, golden: Any) -> None:
    items = [
        ITEM,
        replace(ITEM, state="over", step=171, message="train/loss fine again after 20 steps"),
        replace(ITEM, severity="critical", state="", rule="run_crashed", name="损失\x1b[31m",
                step=None, message="the process died without a word"),
    ]  # fmt: skip
    told = [
        Told(channel="team", num_told=3),
        Told(channel="own", num_waiting=2, trouble="Connection refused"),
    ]
    lines = [report.line(one, screen()) for one in items]
    golden("events-watch.txt", [*lines, *map(report.told, told)])
    made = json.loads(report.json_line(replace(ITEM, value=float("inf"))))
    assert (made["value"], made["threshold"], made["schema_version"]) == ("Infinity", None, 1)
    assert made["created_at"] == "2026-11-18T11:06:40.000Z"
