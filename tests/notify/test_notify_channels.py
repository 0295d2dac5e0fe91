"""Each kind of channel against a real other side: the exact body, and what its answer means."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from email import message_from_string
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest

from expdb.notify import relayed, sending
from expdb.notify.address import Reach
from expdb.notify.channel import Channel, channels_of
from expdb.notify.item import Item
from expdb.notify.post import post_of
from tests.notify.stubs import Mail, Web

KEY = "11aa22bb-KEY"
ITEM = Item(
    run="e7s5g2p0va", name="exp03", severity="critical", rule="loss_spike", step=151, state="open",
    message="train/loss 9.2, z 31 > 6", key="train/loss", value=9.213, threshold=2.31,
    action="go back", command="expdb resume e7s5@100", created_at_ms=1_795_000_000_000,
)  # fmt: skip
TEXT = """\
critical: loss_spike at step 151 of e7s5 exp03
train/loss 9.2, z 31 > 6
value 9.213, threshold 2.310
do: go back
expdb resume e7s5@100"""


def channel(**body: Any) -> Channel:
    return channels_of({"team": body})[0]


def reach(tmp_path: Path, url: str = "") -> Reach:
    return Reach(env={"URL": url, "PATH": "/usr/bin:/bin"}, base=tmp_path, timeout_s=5)


def test_wecom_gets_text_or_markdown(web: Web, tmp_path: Path) -> None:
    team = channel(kind="wecom", url_env="URL", mention=["@all"])
    answer = sending.send(team, post_of(ITEM), reach(tmp_path, web.url()))
    assert (answer.is_taken, answer.said) == (True, "errcode 0: ok")
    path, headers, body = web.got[0]
    assert path == f"/cgi-bin/webhook/send?key={KEY}"
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert json.loads(body) == {
        "msgtype": "text",
        "text": {"content": TEXT, "mentioned_list": ["@all"]},
    }
    marked = channel(kind="wecom", url_env="URL", format="markdown")
    assert sending.send(marked, post_of(ITEM), reach(tmp_path, web.url())).is_taken
    assert web.bodies[1] == {
        "msgtype": "markdown",
        "markdown": {
            "content": '**<font color="warning">critical: loss_spike at step 151 of e7s5 exp03'
            "</font>**\n> train/loss 9.2, z 31 › 6\n> value 9.213, threshold 2.310\n"
            "> do: go back\n`expdb resume e7s5@100`"
        },
    }


@pytest.mark.parametrize(
    ("status", "body", "said", "wait_s"),
    [
        (200, b'{"errcode":45009,"errmsg":"api freq out of limit"}', "errcode 45009: api freq", 60),
        (200, b'{"errcode":93000,"errmsg":"bad 11aa22bb-KEY"}', "errcode 93000: bad <redacted>", 0),
        (200, b"<html>", "HTTP 200 without an errcode", 0),
        (429, b"slow down", "HTTP 429: slow down", 60),
        (500, f"no /cgi-bin/webhook/send?key={KEY}".encode(), "HTTP 500: no <redacted>", 0),
    ],
)
def test_what_wecom_does_not_take_is_no_success(
    web: Web, tmp_path: Path, status: int, body: bytes, said: str, wait_s: float
) -> None:
    web.answers = [(status, body)]
    team = channel(kind="wecom", url_env="URL")
    answer = sending.send(team, post_of(ITEM), reach(tmp_path, web.url()))
    assert not answer.is_taken
    assert answer.said.startswith(said)
    assert KEY not in answer.said
    assert answer.wait_s == wait_s


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:1/send?key={KEY}",
        f"http://127.0.0.1:x/send?key={KEY}",
        f"ftp://h/send?key={KEY}",
        f"http://a b/send?key={KEY}",
        f"http://[/send?key={KEY}",
    ],
)
def test_an_address_that_leads_nowhere_is_said_without_it(tmp_path: Path, url: str) -> None:
    for kind in ("wecom", "webhook"):
        team = channel(kind=kind, url_env="URL")
        answer = sending.send(team, post_of(ITEM), reach(tmp_path, url))
        assert not answer.is_taken
        assert answer.said
        assert KEY not in answer.said


def test_a_webhook_a_file_and_a_command_get_all_fields(web: Web, tmp_path: Path) -> None:
    event = {
        "run": "e7s5g2p0va", "experiment": "exp03", "step": 151, "severity": "critical",
        "rule": "loss_spike", "state": "open", "key": "train/loss",
        "message": "train/loss 9.2, z 31 > 6", "value": 9.213, "threshold": 2.31, "cause": "",
        "action": "go back", "command": "expdb resume e7s5@100",
        "created_at_ms": 1_795_000_000_000,
    }  # fmt: skip
    body = {
        "title": "critical: loss_spike at step 151 of e7s5 exp03",
        "text": TEXT,
        "severity": "critical",
        "events": [event],
    }
    own = channel(kind="webhook", url=web.url("/own"))
    assert sending.send(own, post_of(ITEM), reach(tmp_path)).said == "HTTP 200"
    assert web.bodies == [body]
    file = channel(kind="file", path="alerts.jsonl")
    for value in (9.213, float("inf")):
        post = post_of(replace(ITEM, value=value))
        assert sending.send(file, post, reach(tmp_path)).is_taken
    lines = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert lines == [event, {**event, "value": "Infinity"}]
    script = "import pathlib, sys; pathlib.Path('out').write_text(sys.stdin.read())"
    command = channel(kind="command", command=[sys.executable, "-c", script])
    assert sending.send(command, post_of(ITEM), reach(tmp_path)).is_taken
    assert json.loads((tmp_path / "out").read_text()) == body
    fails = channel(kind="command", command=[sys.executable, "-c", "import sys; sys.exit('no')"])
    answer = sending.send(fails, post_of(ITEM), reach(tmp_path))
    assert answer.said.endswith("ended with 1: no")
    missing = sending.send(
        channel(kind="command", command="nosuch"), post_of(ITEM), reach(tmp_path)
    )
    assert missing.said == "nosuch: No such file or directory"
    nowhere = channel(kind="file", path="no/such/alerts")
    assert "No such file" in sending.send(nowhere, post_of(ITEM), reach(tmp_path)).said


def test_without_apprise_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setattr(relayed, "is_installed", lambda: False)
    team = channel(kind="apprise", url_env="URL")
    answer = sending.send(team, post_of(ITEM), reach(tmp_path, "slack://x"))
    assert answer.said == "a channel of kind apprise needs apprise: pip install 'expdb-ml[notify]'"
    assert "pip install" in sending.problem_of(team, reach(tmp_path, "slack://x"))


def test_mail_goes_through_apprise(mail: Mail, tmp_path: Path) -> None:
    pytest.importorskip("apprise")
    url = f"mailto://127.0.0.1:{mail.port}?from=expdb@example.org&to=ada@example.org&format=text"
    team = channel(kind="email", url_env="URL")
    evil = replace(ITEM, name="x\r\nBcc: eve@example.org", message="<b>损失 & <!channel></b>")
    answer = sending.send(team, post_of(evil), reach(tmp_path, url))
    assert answer.is_taken, answer.said
    [(sender, to, text)] = mail.got
    assert "expdb@example.org" in sender
    assert to.startswith("<ada@example.org>")
    parsed: Any = message_from_string(text)
    subject = str(make_header(decode_header(parsed["Subject"])))
    assert subject == "critical: loss_spike at step 151 of e7s5 x\\x0d\\x0aBcc: eve@example.org"
    assert parsed["Bcc"] is None
    body = next(part for part in parsed.walk() if part.get_content_type() == "text/plain")
    said = body.get_payload(decode=True).decode().replace("\r\n", "\n").strip()
    assert said == (
        "< b>损失 & < !channel>< /b>\nvalue 9.213, threshold 2.310\ndo: go back\n"
        "expdb resume e7s5@100"
    )
    wrong = sending.send(team, post_of(ITEM), reach(tmp_path, "slack://a/b"))
    assert "mailtos://" in wrong.said


def test_apprise_logs_no_address(
    web: Web, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("apprise")
    caplog.set_level(logging.DEBUG)
    port = web.server_address[1]
    team = channel(kind="apprise", url_env="URL")
    url = f"json://ada:{KEY}@127.0.0.1:{port}/hook/{KEY}9"
    assert sending.send(team, post_of(ITEM), reach(tmp_path, url)).is_taken
    [body] = web.bodies
    assert body["title"] == TEXT.splitlines()[0]
    assert body["message"] == "\n".join(TEXT.splitlines()[1:])
    web.answers = [(500, KEY.encode())]
    refused = sending.send(team, post_of(ITEM), reach(tmp_path, url))
    unknown = sending.send(team, post_of(ITEM), reach(tmp_path, f"nosuch://{KEY}"))
    bad = sending.send(team, post_of(ITEM), reach(tmp_path, f"wecombot://{KEY}!bad"))
    for answer in (refused, unknown, bad):
        assert not answer.is_taken
        assert answer.said
        assert KEY not in answer.said
    assert KEY not in caplog.text
    logging.getLogger("apprise").warning("heard")
    assert "heard" in caplog.text
