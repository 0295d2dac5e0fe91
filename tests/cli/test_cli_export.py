from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
LOG = "".join(
    f"step:{n}/3 train_loss:{9 - n}.5 train_time:{n}ms step_avg:nanms\n" for n in range(1, 4)
)


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("EXPDB_UPDATE_GOLDEN") == "1":
        path.write_bytes(text.encode())
    assert text == path.read_bytes().decode()


def test_points_as_csv_on_stdout(here, ids):
    run = ids("exp01")
    done = here("export", "exp01", "--csv", "-")
    assert done.code == 0
    assert f"exp01 = {run}" in done.err
    rows = list(csv.reader(io.StringIO(done.out)))
    assert rows[0] == ["run", "key", "step", "time", "value", "attempt", "rank"]
    assert [(row[0], row[1], row[2], row[4]) for row in rows[1:] if row[1] == "val/loss"] == [
        (run, "val/loss", "10", "2.3"),
        (run, "val/loss", "20", "2.028"),
    ]


def test_json_is_one_document_of_runs_with_points(here, ids):
    done = here("export", "exp01", "--json")
    data = json.loads(done.out)
    assert data["schema_version"] == 1
    (run,) = data["runs"]
    assert (run["expdb"], run["id"], run["experiment"]) == ("run", ids("exp01"), "exp01")
    assert run["config"]["optim"] == {"lr": 0.01}
    assert run["attempts"][0]["git"]["commit"]
    assert {point["key"] for point in run["points"]} == {"val/loss", "train/loss", "train/lr"}
    bare = json.loads(here("export", "exp01", "--json", "--runs").out)
    assert "points" not in bare["runs"][0]


def test_runs_as_a_table(here):
    done = here("export", "-w", "state = finished", "--runs", "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == 6
    lr = {row["experiment"]: json.loads(row["config"])["optim"]["lr"] for row in rows}
    assert lr["exp01"] == 0.01
    assert {row["value"] for row in rows} >= {"1.848", "2.028"}


def test_records_have_short_names(here):
    done = here("export", "exp09_nan", "--jsonl", "-", "--records")
    first = json.loads(done.out.splitlines()[0])
    assert list(first) == [
        "config_name", "run", "seed", "step", "loss", "token_acc", "grad_norm", "tokens_per_sec",
        "memory_peak_mb", "val_ppl", "nonfinite",
    ]  # fmt: skip
    assert (first["config_name"], first["loss"], first["nonfinite"]) == (
        "exp09_nan",
        None,
        ["loss"],
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_all_runs_to_a_folder_and_back_into_another_store(mine, own_lab, form):
    done = mine("export", f"--{form}", "out/")
    assert (done.code, done.out) == (0, "")
    assert f"of 8 runs to out/points.{form}" in done.err
    assert done.err.count("warning") == 0
    again = mine("export", f"--{form}", "out/")
    assert again.code == 4
    assert "is there already" in again.err
    assert mine("export", f"--{form}", "out", "--force").code == 0
    assert not list((own_lab.top / "out").glob(".tmp-*"))
    mine("init", "copy")
    taken = mine("--store", "copy", "import", f"out/points.{form}", "-q")
    assert taken.code == 0
    rows = mine("--store", "copy", "ls", "--json")
    before = {run["id"]: run for run in json.loads(mine("ls", "--json").out)["runs"]}
    after = {run["id"]: run for run in json.loads(rows.out)["runs"]}
    assert sorted(taken.out.split()) == sorted(after) == sorted(before)
    for id, run in after.items():
        for name in ("experiment", "state", "config_digest", "seed", "commit", "objective", "step"):
            assert run[name] == before[id][name], (id, name)
    second = mine("--store", "copy", "import", f"out/points.{form}")
    assert second.code == 0
    assert second.err.count("already imported as") == 8


def test_event_files_for_tensorboard(mine, own_lab):
    done = mine("export", "exp01", "--tensorboard", "tb")
    assert done.code == 0
    assert "points of 1 run to tb" in done.err
    (file,) = (own_lab.top / "tb").glob("exp01-*/events.out.tfevents.*")
    taken = mine("import", str(file), "--json", "--rename", "Loss/val=val/loss")
    assert json.loads(taken.out)["files"][0]["format"] == "tensorboard"


def test_an_export_never_goes_into_the_store(mine, own_lab):
    for where in ("runs/x.csv", "runs/new/", "runs"):
        done = mine("export", "exp01", "--csv", where)
        assert done.code == 4
        assert "lies in the store" in done.err
    assert not list((own_lab.top / "runs").glob("*.csv"))
    assert not (own_lab.top / "runs" / "new").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("export",), "export wants one of --csv OUT"),
        (("export", "--csv", "-", "--json"), "export wants one of"),
        (("export", "--csv", "-", "--records"), "--records goes with --jsonl"),
        (("export", "--parquet", "-"), "wants a file or a folder"),
        (("export", "--tensorboard", "-"), "wants a folder"),
        (("export", "--tensorboard", "tb", "--runs"), "goes without --runs and --attempts"),
        (("export", "exp01", "-w", "seed = 0", "--json"), "exclude each other"),
        (("import",), "import wants FILE"),
        (("import", "nope.log"), "nope.log does not exist"),
        (("import", "train.py", "--pattern", "x"), "no pattern is called x"),
        (("import", "train.py", "--pattern", "llmc", "--regex", "x"), "exclude each other"),
        (("import", "train.py", "--format", "csv", "--regex", "x"), "read a log"),
        (("import", "train.py", "--regex", "("), "is no regular expression"),
        (("import", "train.py", "--rename", "x"), "OLD=NEW"),
        (("import", "train.py", "--rename", "x="), "is empty"),
        (("import", "train.py", "--exp", ""), "a name is empty"),
        (("import", "train.py"), "no known pattern reads train.py"),
    ],
)
def test_usage_is_checked_first(here, args, said):
    done = here(*args)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""


def test_import_says_what_it_took(mine, own_lab):
    (own_lab.top / "base-seed-4.log").write_text("hello\n" + LOG)
    first = mine("import", "base-seed-4.log", "--config", "optim.lr=1e-3")
    again = mine("import", "base-seed-4.log")
    assert (first.code, first.out, again.code) == (0, "", 0)
    golden("import.txt", first.err + again.err)
    shown = mine("show", first.err.split()[1])
    assert shown.code == 0
    assert "imported from base-seed-4.log" in shown.out
    rows = json.loads(mine("ls", "--json").out)["runs"]
    made = next(run for run in rows if run["experiment"] == "base")
    assert (made["seed"], made["state"], made["commit"]) == (4, "finished", None)


def test_import_in_json(mine, own_lab):
    (own_lab.top / "a.csv").write_text("step,loss\n1,2.5\nx,1\n")
    done = mine("import", "a.csv", "--json", "--exp", "new", "--objective", "loss")
    golden("import.json", done.out)
    quiet = mine("import", "a.csv", "-q")
    assert quiet.out.split() == [json.loads(done.out)["files"][0]["runs"][0]["id"]]
    ranked = mine("rank", "loss", "-q")
    assert ranked.out.split() == quiet.out.split()


def test_an_import_waits_for_a_rollback_that_was_cut_off(mine, own_lab):
    from expdb.git.worktree import WorkTree, find_worktree
    from expdb.model import Op
    from expdb.store import ops
    from expdb.store.ids import new_id
    from expdb.store.store import open_store

    store = open_store(own_lab.top / "runs")
    tree = find_worktree(own_lab.top)
    assert isinstance(tree, WorkTree)
    (own_lab.top / "a.csv").write_text("step,loss\n1,2.5\n")
    op = Op(
        id=new_id(), kind="rollback", phase="begin", created_at_ms=ops.now_ms(), what="rollback",
        work_tree=str(tree.git_dir),
    )  # fmt: skip
    ops.write_op(store.layout, op)
    mark = ops.Marker(
        op=op.id, store=str(store.root), kind=op.kind, what=op.what, created_at_ms=op.created_at_ms
    )
    ops.mark_unfinished(tree.git_dir, mark)
    done = mine("import", "a.csv")
    assert done.code == 4
    assert "nothing written" in done.err
