"""How push, pull and remotes look."""

from __future__ import annotations

from pathlib import Path

from expdb.actions.exchange import Exchanged, Moved
from expdb.actions.remote import RemoteRow
from expdb.model import Ref
from expdb.report import exchange, remotes
from expdb.store.remotes import Remote

LAB = Remote(name="lab", path=Path("/mnt/lab/expdb"), id="b0v4k8s2m1")
EVIL = "\x1b[31m[red]../../x"
OP = "w8e2m4x7qk"


def moved(run, name, outcome, **facts):
    return Moved(run=run, name=name, outcome=outcome, **facts)


RUNS = (
    moved("k3f9x2m7qd", "baseline", "new", bytes=4_600_000),
    moved("g2z8r5n1fs", EVIL, "updated", bytes=12_000, kept=("plots/loss.png",)),
    moved("d6v3m9s2xk", "exp02_cosine", "same"),
    moved("e7s5g2p0va", "exp03_lr_jump", "behind"),
    moved("x5j2v8c0ke", "exp05_overfit", "skipped", why="it goes on, or waits for its recovery"),
    moved("v8k2h5d3rt", "exp06_moe", "refused", why="run.json is not the same in both places"),
)


def made(verb="push", **facts):
    known = {"commits": 2, "refs": 1, "ops": 3, "no_code": ("d6v3m9s2xk",), "runs": RUNS}
    return Exchanged(verb=verb, remote=LAB, **{**known, "dry_run": False, **facts})


def test_what_was_copied_and_what_stayed_behind(screen, golden):
    golden("push-100.txt", exchange.render_done(made(), screen()))
    golden("push-pipe.txt", exchange.render_done(made(), screen(terminal=False, ascii=True)))
    golden("pull-100.txt", exchange.render_done(made("pull", op=OP), screen()))


def test_what_would_be_copied(screen, golden):
    done = made(dry_run=True)
    golden("push-dry-run-100.txt", exchange.render_plan(done, screen()))
    golden("push-dry-run-pipe.txt", exchange.render_plan(done, screen(terminal=False, ascii=True)))


def test_nothing_to_do_is_said(screen):
    for verb, runs, said in (
        ("push", (), "no runs to push"),
        ("pull", (), "no runs in lab"),
        ("push", RUNS[2:3], "nothing to push: lab has 1 run already"),
        ("pull", RUNS[2:4], "nothing new in lab: 2 runs of it here already"),
    ):
        done = made(verb, runs=runs, commits=0, refs=0, ops=0, no_code=())
        assert exchange.render_done(done, screen())[0] == said


def test_who_is_refused_is_named_with_the_reason(screen):
    assert exchange.said_of_refused(made()) == "1 run of lab refused; nothing of it was changed"
    assert exchange.details(made().of("refused"), screen()) == (
        "v8k2 exp06_moe: run.json is not the same in both places",
    )
    many = tuple(moved(f"a{at:09d}", EVIL, "refused", why=EVIL) for at in range(30))
    lines = exchange.details(many, screen())
    assert lines[-1] == "and 10 more"
    assert "\x1b" not in "".join(lines)


def test_an_exchange_as_json():
    data = exchange.json_of(made("pull", op=OP))
    assert data["schema_version"] == 1
    assert (data["remote"], data["op"], data["bytes"]) == ("lab", OP, 4_612_000)
    assert data["runs"][1] == {
        "id": "g2z8r5n1fs", "name": EVIL, "outcome": "updated", "bytes": 12_000, "why": None,
        "kept": ["plots/loss.png"],
    }  # fmt: skip
    assert data["no_code"] == ["d6v3m9s2xk"]


def rows():
    ref = Ref(name="lab/baseline", kind="ref", run="k3f9x2m7qd", step=300, op=OP)
    away = Remote(name=EVIL, path=Path("/mnt/gone"), id="a" * 10)
    return [
        RemoteRow(remote=away, runs=None, refs=(), problem="there is no folder /mnt/gone"),
        RemoteRow(remote=LAB, runs=1_234, refs=(ref,)),
    ]


def test_remotes_are_a_table_with_the_refs_of_others(screen, golden):
    golden("remote-100.txt", remotes.render_remotes(rows(), screen()))
    golden("remote-pipe.txt", remotes.render_remotes(rows(), screen(terminal=False, ascii=True)))


def test_remotes_as_json():
    data = remotes.json_of_remotes(rows())
    assert data["remotes"][1] == {
        "name": "lab", "path": "/mnt/lab/expdb", "id": "b0v4k8s2m1", "runs": 1_234,
        "problem": None,
        "refs": [{"name": "lab/baseline", "kind": "ref", "run": "k3f9x2m7qd", "step": 300}],
    }  # fmt: skip
    assert data["remotes"][0]["problem"] == "there is no folder /mnt/gone"


def test_naming_and_forgetting_is_one_line(screen):
    style = screen()
    assert remotes.said_of(LAB, style, is_new=True) == "remote lab → /mnt/lab/expdb"
    said = remotes.said_of(LAB, style, is_new=False)
    assert said == "remote lab removed (was /mnt/lab/expdb); the folder stays as it is"
