from __future__ import annotations

import io
import json
import shutil

import pytest

from expdb.cli.output import Output
from expdb.cli.progress import Progress


@pytest.fixture
def spoilt(own_lab):
    """The folders of exp01, with a damaged checkpoint, and of exp07_code, without run.json."""
    runs = own_lab.top / "runs"
    [exp01] = runs.glob("exp=exp01/run=*")
    (exp01 / "checkpoints/step=20/model.pt").write_bytes(b"weights xx")
    [exp07] = runs.glob("exp=exp07_code/run=*")
    (exp07 / "run.json").unlink()
    shutil.rmtree(runs / ".expdb/index")
    return exp01, exp07


def test_a_sound_store_is_one_line_and_nothing_is_written(here, lab):
    runs = lab.top / "runs"
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    done = here("fsck")
    assert done.code == 0
    assert done.out.startswith("sound: 8 runs, 12 checkpoints, 1 ref, 1 op, ")
    assert done.out.count("\n") == 1
    assert done.err == ""
    after = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    assert after == before


def test_damage_is_named_mended_and_gone(spoilt, mine, own_lab):
    exp01, exp07 = spoilt
    done = mine("fsck")
    assert done.code == 5
    rows = done.out.splitlines()
    assert rows[0].startswith("checked 8 runs, 12 checkpoints, 1 ref, 1 op, ")
    assert "checkpoints/step=20/model.pt: differs from its SHA-256" in done.out
    assert "run.json: nothing else says what the run was" in done.out
    assert rows[-1] == "2 problems, 1 can be mended, no point lost"
    assert done.err == "mend:      expdb fsck --repair\n"
    assert not (own_lab.top / "runs/.expdb/index").exists()

    both = [path.name.removeprefix("run=") for path in (exp01, exp07)]
    assert sorted(mine("fsck", "-q").out.split()) == sorted(both)

    done = mine("fsck", "--repair")
    assert done.code == 5
    assert "\nset aside in trash  " in done.out
    assert "\nkept                " in done.out
    assert "2 problems: 1 set aside in trash, 1 kept; no point lost; 1 problem left" in done.out
    assert list((own_lab.top / "runs/.expdb/trash").rglob("model.pt")) != []
    data = json.loads(mine("fsck", "--json").out)
    assert (data["sound"], len(data["findings"])) == (False, 1)
    assert data["findings"][0]["path"] == f"exp=exp07_code/{exp07.name}/run.json"
    assert mine("show", "exp01@10").code == 0


def test_named_runs_only(spoilt, mine):
    exp01, _ = spoilt
    done = mine("fsck", "baseline:all", "exp02_near")
    assert done.code == 0
    assert done.out.startswith("sound: 3 runs, ")
    assert "exp02_near = " in done.err
    done = mine("fsck", "exp01")
    assert done.code == 5
    run = exp01.name.removeprefix("run=")
    assert done.err.splitlines()[-1] == f"mend:      expdb fsck {run} --repair"
    assert mine("fsck", run[:6], "--repair").code == 0
    assert mine("fsck", run).code == 0


def test_a_run_that_no_word_can_name_is_found_by_its_id(spoilt, mine):
    run = spoilt[1].name.removeprefix("run=")
    for word in (run, run[:6]):
        done = mine("fsck", word)
        assert done.code == 5
        assert "run.json: nothing else says what the run was" in done.out
    assert mine("fsck", "exp07_code").code == 3
    assert mine("fsck", run[:2]).code == 3


def test_a_repair_waits_for_an_unfinished_rollback(own_lab, mine, spoilt):
    from expdb.model import Op
    from expdb.store.layout import StoreLayout
    from expdb.store.ops import Marker, mark_unfinished, write_op

    layout, git_dir = StoreLayout(own_lab.top / "runs"), own_lab.top / ".git"
    op = Op(id="a" * 10, kind="rollback", phase="begin", what="x", work_tree=str(git_dir))
    write_op(layout, op)
    marker = Marker(op=op.id, store=str(layout.root), kind="x", what="x", created_at_ms=0)
    mark_unfinished(git_dir, marker)
    done = mine("fsck", "--repair")
    assert done.code == 4
    assert "nothing written" in done.err
    assert "unfinished" in mine("fsck").out


def test_a_store_that_cannot_be_read_is_an_error(own_lab, mine):
    (own_lab.top / "runs/.expdb/store.json").write_text("{")
    done = mine("fsck")
    assert done.code == 5
    assert done.err.startswith("error: store.json")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_the_progress_is_shown_late_and_goes_away(stream):
    err, now = stream(), [0.0]
    out = Output(stdout=io.StringIO(), stderr=err, env={})
    with Progress(out, "checking", "runs", clock=lambda: now[0]) as progress:
        for done, at in ((1, 0.4), (4100, 0.6), (4200, 0.61), (5000, 0.8)):
            now[0] = at
            progress(done, 10_000)
    if stream is io.StringIO:
        assert err.getvalue() == ""
        return
    assert err.getvalue() == (
        "\r\x1b[Kchecking 10,000 runs  41 %\r\x1b[Kchecking 10,000 runs  50 %\r\x1b[K"
    )
