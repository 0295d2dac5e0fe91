"""What a post says: whole, within its length, and nothing in it is obeyed by a chat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from expdb.notify.channel import channels_of
from expdb.notify.item import Alerts, Item
from expdb.notify.post import as_text, cut, fitted, merged, post_of
from expdb.notify.wecom import body_of

LINE: dict[str, Any] = {
    "step": 151, "severity": "warn", "rule": "loss_spike", "message": "train/loss 9.2, z 31 > 6",
    "created_at_ms": 1, "key": "train/loss", "value": 9.213, "threshold": 2.31, "state": "open",
    "opened": 151, "version": "0a1b2c3d", "command": "expdb resume e7s5@100 --lr-scale 0.5",
    "runbook": {"cause": "a bad batch", "checks": "the batch", "action": "go back"},
}  # fmt: skip
TEXT = """\
warn: loss_spike at step 151 of e7s5 exp03
train/loss 9.2, z 31 > 6
value 9.213, threshold 2.310
do: go back
cause: a bad batch
expdb resume e7s5@100 --lr-scale 0.5"""


def item(**changes: Any) -> Item:
    made = Alerts().item("e7s5g2p0va", "exp03", 99, {**LINE, **changes})
    assert made is not None
    return made


def wecom(**more: Any) -> Any:
    return channels_of({"team": {"kind": "wecom", "url_env": "X", **more}})[0]


def test_a_post_says_what_where_how_much_what_to_do_and_what_to_type() -> None:
    assert as_text(post_of(item()), 2048) == TEXT
    over = item(state="over", severity="info", message="fine again", value="NaN", runbook={})
    assert (
        as_text(post_of(over), 2048).splitlines()[0] == "over: loss_spike at step 151 of e7s5 exp03"
    )


def test_a_long_chinese_text_is_cut_on_a_character() -> None:
    long = item(message="损失突然变大" * 167)
    assert len(long.message.encode()) > 3000
    said = body_of(wecom(), post_of(long))["text"]["content"]
    assert 1900 < len(said.encode()) <= 2048
    assert "损失突然变大…\n" in said or "…" in said
    assert said.endswith("\nexpdb resume e7s5@100 --lr-scale 0.5")
    for size in range(2040, 2049):
        text = cut("损失突然变大" * 167, size)
        assert len(text.encode()) <= size
        assert set(text) <= set("损失突然变大…")


def test_lines_that_are_too_long_are_cut_to_one_length() -> None:
    assert fitted(["ab", "c" * 100, "d" * 50], 60) == ["ab", "c" * 25 + "…", "d" * 25 + "…"]
    assert fitted(["ab", "cd"], 5) == ["ab", "cd"]
    assert sum(len(one.encode()) + 1 for one in fitted(["é" * 40] * 3, 31)) <= 32


def test_nothing_in_a_post_is_markup_and_nobody_is_called() -> None:
    evil = replace(
        item(message="<@all> <!channel> @everyone [x](http://e) **b** `c`\n> q \x1b[31m\u202e"),
        name="<font color='red'>@here",
    )
    for said in (as_text(post_of(evil), 2048), body_of(wecom(), post_of(evil))["text"]["content"]):
        assert "<@" not in said
        assert "<!" not in said
        assert "<font" not in said
        assert "@here" not in said
        assert "@everyone" not in said
        assert "\x1b" not in said
        assert "\u202e" not in said
        assert len(said.splitlines()) == 6
    marked = body_of(wecom(format="markdown", mention=["ada"]), post_of(evil))
    said = marked["markdown"]["content"]
    assert said.count("<font") == said.count("</font>") == 1
    assert said.count("<") == 3
    assert said.endswith("\n<@ada>")
    assert "](" not in said
    assert "**b**" not in said
    assert "`expdb resume e7s5@100 --lr-scale 0.5`" in said
    assert len(body_of(wecom(format="markdown"), post_of(item(message="汉" * 3000)))
               ["markdown"]["content"].encode()) <= 4096  # fmt: skip


def test_many_things_are_lines_of_one_post_and_what_does_not_fit_is_left() -> None:
    many = [replace(item(step=step), at=step) for step in range(100, 130)]
    post = merged(many, 1500)
    text = as_text(post, 2048)
    assert 10 < len(post.items) < 30
    assert list(post.items) == many[: len(post.items)]
    assert all(f"at step {one.step} of" in text for one in post.items)
    assert "…" not in text
    assert text.startswith(f"{len(post.items)} alerts of e7s5 exp03\n")
    assert len(text.encode()) <= 2048
    one = merged([item(message="x" * 5000), item()], 100)
    assert len(one.items) == 1


def test_what_was_found_twice_is_told_once_and_an_end_is_as_severe_as_its_alert() -> None:
    alerts = Alerts()

    def take(**changes: Any) -> Item | None:
        return alerts.item("e7s5g2p0va", "exp03", 1, {**LINE, **changes})

    assert take() is not None
    assert take() is None  # the same steps again after a resume
    assert take(value=9.5) is not None
    worse = take(state="worse", severity="critical", step=160)
    over = take(state="over", severity="info", step=170)
    assert worse is not None
    assert over is not None
    assert over.severity == "critical"
    assert take(state="", severity="info") is None  # for the record alone
    own = alerts.item("e7s5g2p0va", "exp03", 1, {"step": 3, "severity": "warn", "rule": "alert"})
    assert own is not None
    assert take(step="x") is None
