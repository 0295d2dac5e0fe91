from __future__ import annotations

import io
import json
import sys


def test_tags_from_the_command_line(mine):
    assert mine("tag").err == "no tags\nhint: make one: expdb tag NAME RUN\n"
    done = mine("tag", "paper", "exp01@best")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[-1].startswith("tag paper -> ")
    assert done.err.endswith(" exp01@20\n")
    taken = mine("tag", "paper", "baseline")
    assert taken.code == 4
    assert "hint: remove it first: expdb tag -d paper\n" in taken.err
    listed = mine("tag")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.splitlines()[0].split() == ["tag", "run", "experiment", "step", "age"]
    assert mine("tag", "-q").out == "paper\n"
    assert json.loads(mine("tag", "--json").out)["tags"][0]["step"] == 20
    run = mine("show", "paper", "-q").out.strip()
    assert mine("tag", "other", "exp01", "-q").out.strip() == run
    assert mine("tag", "-d", "paper").err.startswith("tag paper removed (was ")
    assert mine("undo").code == 0
    assert mine("tag", "-q").out == "other\npaper\n"


def test_what_tag_does_not_understand(here):
    for args in (("tag", "x"), ("tag", "-d"), ("tag", "-d", "x", "exp01")):
        done = here(*args)
        assert (done.code, done.out) == (2, "")
        assert "it wants NAME RUN, -d NAME, or nothing" in done.err
    assert here("tag", "exp02_near", "exp01").code == 2
    assert here("tag", "x", "nope").code == 3


def test_labels_from_the_command_line(mine):
    assert mine("label").err.startswith("no labels\n")
    done = mine("label", "exp01", "baseline:all", "keep")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[-1] == "label keep on 3 runs"
    assert mine("label", "exp01").out == "keep\n"
    chosen = mine("label", "-w", "label = keep and experiment = baseline", "old", "-q")
    assert chosen.code == 0, chosen.err
    assert len(chosen.out.split()) == 2
    assert mine("label", "-d", "keep", "exp01").err.splitlines()[-1].startswith("label keep off ")
    found = json.loads(mine("label", "--json").out)["labels"]
    assert found == [{"label": "keep", "runs": 2}, {"label": "old", "runs": 2}]
    assert mine("undo").code == 0
    assert mine("label", "-q").out == "keep\nold\n"
    for args, said in (
        (("label", "-w", "state = failed", "--since", "1s", "x"), "the filter selects no run"),
        (("label", "exp01", "a b"), "holds a space"),
        (("label", "-w", "state = finished", "exp01", "x"), "exclude each other"),
        (("label", "-d", "keep"), "it wants RUN or -w"),
    ):
        refused = mine(*args)
        assert refused.code in (2, 3), refused
        assert said in refused.err


def test_notes_from_the_command_line(mine, monkeypatch):
    assert mine("note", "exp01").err.endswith(" exp01 has no note\n")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh1234")
    said = mine("note", "exp01", "tried", "hf_abcdefgh1234", "https://ada:pw@host/x")
    assert said.err.splitlines()[-1].endswith(" exp01  (1 note)")
    monkeypatch.setattr(sys, "stdin", io.StringIO("two\nlines \x1b[31m[red]\n"))
    assert mine("note", "exp01", "-").code == 0
    assert mine("note", "exp01").out == (
        "tried <redacted> https://<redacted>@host/x\ntwo\n  lines \\x1b[31m[red]\n"
    )
    data = json.loads(mine("note", "exp01", "--json").out)
    assert data["notes"][1] == "two\nlines \x1b[31m[red]"
    assert mine("undo").code == 0
    assert len(json.loads(mine("show", "exp01", "--json").out)["notes"]) == 1
    assert mine("note", "exp01", " ").code == 2


def test_ops_lists_what_was_named(mine):
    mine("tag", "../../x[red]", "exp01")
    mine("label", "exp01", "keep")
    mine("note", "exp01", "a \x1b[31mnote")
    out = mine("ops").out
    what = [line.split("  ")[2:] for line in out.splitlines()[1:4]]
    assert "note on " in out
    assert "a \\x1b[31mnote" in out
    assert "tag ../../x[red] -> " in out
    assert all(line.rstrip().split()[-3:-1] == ["expdb", "undo"] for line in out.splitlines()[1:])
    assert len(what) == 3
