"""Channels as data: what is wrong is said before training, and no secret is ever repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from expdb.errors import BadInput
from expdb.notify.address import Reach, address_of, hidden
from expdb.notify.channel import channels_of, looks_secret
from expdb.notify.item import Item
from expdb.track.settings import effective

KEY = "693a91f6-7xxx-4bc4-97a0-0ec2sifa5aaa"
HOOK = f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={KEY}"
TEAM = {"kind": "wecom", "url_env": "EXPDB_WECOM_URL"}


def item(rule: str = "loss_spike", severity: Any = "warn", **more: Any) -> Item:
    return Item(
        run="k3f9x2m7qd", name="baseline", severity=severity, rule=rule, message="m", **more
    )


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (3, "not a mapping of channels"),
        ({"team": None}, "team is NoneType, not a mapping"),
        ({"team": {"kind": "wecon"}}, "team.kind is 'wecon'"),
        ({"team": {**TEAM, "min_severty": "warn"}}, "called expdb.notify.team.min_severty"),
        ({"team": {**TEAM, "min_severity": "bad"}}, "min_severity is 'bad'"),
        ({"team": {**TEAM, "per_minute": 21}}, "from 1 to 20"),
        ({"team": {**TEAM, "resolve": "yes"}}, "not true or false"),
        ({"team": {**TEAM, "rules": [1]}}, "rules has something that is no text"),
        ({"team": {**TEAM, "path": "x"}}, "no part of a wecom channel is called"),
        ({"team": {"kind": "wecom"}}, "team has no url_env"),
        ({"team": {**TEAM, "url_file": "x"}}, "several addresses"),
        ({"team": {"kind": "file"}}, "team has no path"),
        ({"team": {"kind": "wecom", "url_env": "$X"}}, "url_env is not the name of a variable"),
    ],
)
def test_what_makes_no_sense_is_named(section: Any, said: str) -> None:
    with pytest.raises(BadInput) as error:
        effective({"notify": section})
    assert said in error.value.message


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "wecom", "url_env": HOOK},
        {"kind": "wecom", "url": HOOK},
        {"kind": "wecom", "url_file": HOOK},
        {"kind": HOOK},
        {"kind": "webhook", "url": HOOK},
        {"kind": "webhook", "url": f"https://ada:{KEY}@example.org/"},
        {"kind": "webhook", "url": f"https://hooks.example.org/services/{KEY}"},
        {"kind": "webhook", "url": f"slack://{KEY}"},
        {"kind": "file", "path": HOOK},
        {"kind": "wecom", "url_env": "X", "format": HOOK},
        {"kind": "wecom", "url_env": "X", "min_severity": HOOK},
        {"kind": "wecom", "url_env": "X", "resolve": HOOK},
    ],
)
def test_an_address_in_the_config_is_refused_and_not_repeated(body: Any) -> None:
    with pytest.raises(BadInput) as error:
        channels_of({"team": body})
    said = " ".join([error.value.message, *error.value.hints])
    assert KEY not in said
    assert "qyapi" not in said


def test_an_address_without_a_secret_may_stand_in_the_config() -> None:
    assert not looks_secret("http://127.0.0.1:8080/hook")
    [channel] = channels_of({"own": {"kind": "webhook", "url": "http://alerts.local/expdb"}})
    assert channel.url == "http://alerts.local/expdb"


def test_an_address_is_read_where_it_is_named(tmp_path: Path) -> None:
    [team] = channels_of({"team": TEAM})
    reach = Reach(env={"EXPDB_WECOM_URL": f" {HOOK}\n"}, base=tmp_path)
    assert address_of(team, reach) == HOOK
    with pytest.raises(BadInput, match="team needs EXPDB_WECOM_URL, which is not set"):
        address_of(team, Reach(env={}, base=tmp_path))
    [other] = channels_of({"other": {"kind": "wecom", "url_file": "hook"}})
    with pytest.raises(BadInput, match="needs hook: No such file"):
        address_of(other, reach)
    (tmp_path / "hook").write_text(f"\n{HOOK}\n")
    assert address_of(other, reach) == HOOK


def test_no_part_of_an_address_is_said() -> None:
    for address in (HOOK, f"https://ada:{KEY}@h.org/x", f"slack://{KEY}/a", f"https://h/a/{KEY}"):
        said = hidden(f"cannot reach {address} (key {KEY}), ada:{KEY}@h", address)
        assert KEY not in said
        assert said.startswith("cannot reach")


def test_a_channel_takes_what_is_severe_enough_and_of_its_rules() -> None:
    [all_of, some, quiet] = channels_of(
        {
            "all": TEAM,
            "some": {**TEAM, "rules": ["loss_*", "!loss_jump"], "min_severity": "critical"},
            "quiet": {**TEAM, "resolve": False},
        }
    )
    assert all_of.takes(item())
    assert not all_of.takes(item(severity="info"))
    assert all_of.takes(item(state="over"))
    assert not quiet.takes(item(state="over"))
    assert not some.takes(item())
    assert some.takes(item(severity="critical"))
    assert not some.takes(item("loss_jump", "critical"))
    assert not some.takes(item("stall", "critical"))
    assert channels_of(None) == channels_of(False) == ()
