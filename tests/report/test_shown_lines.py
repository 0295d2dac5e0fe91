from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from expdb.model import Checkpoint, Event, Pin, RunAt, RunState
from expdb.query.compare_results import CodeDiff, Comparison, ConfigDiff, MetricDiff, Verdict
from expdb.query.entry import Entry
from expdb.query.results import Outcome
from expdb.query.status_results import Reason, StatusRow, StoreStatus, WorkTreeStatus
from expdb.report import digest_shown, shown, status
from expdb.text import cells

PATH = "runs/exp=exp01/run=t1h6y3cz8r"


def against(cast, run, outcome=Outcome.WORSE, delta=0.18, reason="") -> Comparison:
    return Comparison(
        runs=(cast.run("k3f9x2m7qd"), run),
        objective=cast.loss,
        step=300,
        config=(ConfigDiff(key="optim.lr", values=(0.003, 0.01), differs=True),),
        code=CodeDiff(same_tree=True),
        environment=(),
        data=(),
        metrics=(
            MetricDiff(
                key="val/loss",
                values=(1.848, 2.028),
                deltas=(None, delta),
                deltas_pct=(None, 9.7),
                better=(None, False),
                outcomes=(None, outcome),
                step=300,
                is_objective=True,
            ),
        ),
        evals=(),
        num_events=({}, {}),
        verdicts=(Verdict(run=run.id, outcome=outcome, reason=reason, delta=delta),),
        noise=cast.noise,
    )


def make_exp01(cast, **change):
    make = cast.series
    series = [
        make("val/loss", 2.028),
        make("val/ppl", 7.599),
        make("eval/cloze/acc", 0.430),
        make("train/loss", 1.831, 300, min=1.812, min_step=294),
        make("train/grad_norm", 0.874, 300),
        make("train/lr", 0.001, 300),
        make("train/tokens_per_s", 18310.0, 300),
        *(make(f"layer/{at}/norm", 1.0) for at in range(12)),
    ]
    message = "train/grad_norm 3.418, z 7.1 > 6"
    event = Event(step=112, severity="warn", rule="grad_spike", message=message)
    return cast.run("t1h6y3cz8r", series={s.key: s for s in series}, events=(event,), **change)


def test_show_at_100_columns(cast, screen, golden):
    run = make_exp01(cast)
    lines = shown.render(run, screen(), path=PATH, num_keys=41, against=against(cast, run))
    golden("show-100.txt", lines)


def test_show_in_a_pipe(cast, screen, golden):
    run = make_exp01(cast)
    style = screen(terminal=False, ascii=True)
    lines = shown.render(run, style, path=PATH, num_keys=41, against=against(cast, run))
    golden("show-pipe.txt", lines)
    assert all(line.isascii() for line in lines)


def test_show_all_lists_every_metric(cast, screen):
    lines = shown.render(make_exp01(cast), screen(), path=PATH, num_keys=41, all=True)
    assert sum("layer/" in line for line in lines) == 12


def test_what_is_unusual_gets_a_line(cast, screen):
    pin = Pin(
        commit=cast.first,
        branch="main",
        dirty=True,
        num_edits=2,
        snapshot="0d57b3a" + "c" * 33,
        reproducible=False,
        reasons=("submodule vendor/tok has edits",),
        skipped=("big.bin",),
    )
    run = make_exp01(cast)
    first = replace(run.attempts[0], pin=pin)
    second = replace(first, number=2, resumed_from=200)
    run = replace(
        run,
        attempts=(first, second),
        labels=("keep",),
        notes=("try again",),
        fork=RunAt(run="k3f9x2m7qd", step=300),
        num_dropped=7,
    )
    lines = shown.render(run, screen(), path=PATH, num_keys=41, refs=("paper",))
    text = "\n".join(lines)
    assert "  attempts     2, resumed at 200" in lines
    changed = {"skip_batches": 3, "skipped": [8, 13], "lr_scale": 0.5}
    third = replace(second, number=3, resumed_from=100, intervention=changed)
    more = shown.render(
        replace(run, attempts=(first, second, third)), screen(), path=PATH, num_keys=1
    )
    said = (
        "  attempts     3, resumed at 100, batches 8-13 skipped, learning rate times 0.5 from 100"
    )
    assert said in more
    fourth = replace(third, number=4, intervention={})  # it went back, and did nothing of that
    last = replace(run, attempts=(first, second, third, fourth))
    assert "  attempts     4, resumed at 100" in shown.render(last, screen(), path=PATH, num_keys=1)
    assert "  code         main 4be1f02 with 2 edits, kept as snapshot 0d57b3a" in lines
    assert "  reproducible  no: submodule vendor/tok has edits" in lines
    assert "  skipped      big.bin" in lines
    assert "  fork         k3f9@300" in lines
    assert "  dropped      7 points were lost" in lines
    for word in ("paper", "keep", "try again"):
        assert word in text


def test_a_run_without_parent_values_or_checkpoints(cast, screen):
    run = cast.run("x5j2v8c0ke", parent=None, series={}, checkpoints=(), events=())
    lines = shown.render(run, screen(), path="p", num_keys=0)
    assert lines[0] == ("exp05_overfit  x5j2v8c0ke  seed 0  ▸ running, 180/300, started 20 s ago")
    assert "  parent       none" in lines
    assert "  checkpoints  none" in lines


def test_a_parent_that_is_not_here_is_named(cast, screen):
    lines = shown.render(make_exp01(cast), screen(), path="p", num_keys=1)
    assert "  parent       k3f9, which is not in this store" in lines


def test_outcomes_against_the_parent(cast, screen):
    run = make_exp01(cast)
    last = []
    for outcome, reason in (
        (Outcome.NO_DIFFERENCE, ""),
        (Outcome.INCONCLUSIVE, "1 seed each and no noise declared"),
    ):
        made = against(cast, run, outcome, 0.004, reason)
        last.append(shown.render(run, screen(), path="p", num_keys=1, against=made)[-1])
    assert last == [
        "no difference  from k3f9 baseline: +0.004, inside noise ±0.022",
        "inconclusive  against k3f9 baseline: 1 seed each and no noise declared",
    ]


def test_damaged_and_many_checkpoints_are_counted(cast, screen):
    many = tuple(Checkpoint(step=s * 100, bytes=1000, complete=True) for s in range(1, 12))
    bad = Checkpoint(step=1200, bytes=0, complete=False, problem="no manifest")
    run = make_exp01(cast, checkpoints=(*many, bad))
    lines = shown.render(run, screen(), path="p", num_keys=1)
    assert "  checkpoints  11, from 100 to 1100; 11 kB; 1 damaged" in lines


def test_hostile_text_in_a_run_stays_text(cast, screen):
    run = make_exp01(cast, notes=("\x1b]0;gotcha\x07",), command=("python", "\x1b[31m"))
    lines = shown.render(run, screen(), path="p", num_keys=1)
    assert not any("\x1b" in line or "\x07" in line for line in lines)
    assert any("\\x1b]0;gotcha\\x07" in line for line in lines)


def test_show_digest(cast, screen, golden):
    run = make_exp01(cast)
    parts = digest_shown.DigestParts(
        digest=run.digest,
        num_counted=41,
        seed_key="seed",
        seed=0,
        has_seed=True,
        ignored=("loop.num_workers", "loop.device", "loop.print_every"),
        stubbed={"loop.log_dir": "${hydra:runtime.output_dir}"},
        today=run.digest,
    )
    lines = digest_shown.render(parts, screen(), against=against(cast, run))
    golden("show-digest.txt", lines)
    moved = replace(parts, today="v1:ffff20a9b1c4d7")
    assert any(
        "under today's it is v1:ffff20a9b1c4" in line
        for line in digest_shown.render(moved, screen())
    )


def status_row(run, state=None, **more):
    return StatusRow(
        experiment=run.experiment,
        variant=run.variant,
        seed=run.seed,
        state=state or run.state.value,
        is_declared=state is not None,
        run=run,
        **more,
    )


def make_status(cast, **change):
    rows = tuple(status_row(row) for row in cast.rows)
    made = StoreStatus(
        work_tree=WorkTreeStatus(
            in_git=True,
            branch="main",
            commit=cast.second,
            edits=(("M", "README.md"), ("M", "conf/exp/exp02_cosine.yaml")),
            head=cast.rows[-1],
            head_step=300,
        ),
        store="runs",
        num_runs=15,
        bytes=141_000_000,
        rows=rows,
        counts={"finished": 12, "running": 1, "crashed": 1, "failed": 1},
        metric="val/loss",
    )
    return replace(made, **change)


def test_status_at_100_columns(cast, screen, golden):
    golden("status-100.txt", status.render(make_status(cast), screen()))


def test_status_at_50_columns_drops_the_metric_and_cuts_the_reason(cast, screen, golden):
    lines = status.render(make_status(cast), screen(width=56))
    table = lines[4:-2]
    assert max(cells(line) for line in table) <= 56
    golden("status-56.txt", lines)


def test_status_in_a_pipe(cast, screen, golden):
    golden("status-pipe.txt", status.render(make_status(cast), screen(terminal=False, ascii=True)))


def test_status_work_tree_lines(cast, screen):
    tree = make_status(cast).work_tree

    def first(**change):
        return status.render(make_status(cast, work_tree=replace(tree, **change)), screen())[0]

    assert first(edits=(), equals_head=True) == (
        "work tree  main 7c1e88a, clean, equals HEAD k3f9 baseline@300"
    )
    assert first(head=None, edits=(), baseline=cast.rows[-1]) == (
        "work tree  main 7c1e88a, clean; no rollback yet: the next run's parent is k3f9 baseline"
    )
    assert first(branch="detached", edits=(), equals_head=True).startswith(
        "work tree  detached at 7c1e88a"
    )
    assert first(in_git=False, reason="not in a git repository") == (
        "work tree  not in a git repository: runs keep config and weights, not code"
    )
    assert first(commit=None, head=None, edits=()).startswith("work tree  no commit yet, clean;")


def test_status_of_an_empty_store_has_no_table(cast, screen):
    lines = status.render(make_status(cast, rows=(), num_runs=0, bytes=0), screen())
    assert lines[-1] == "store      runs: 0 runs, 0 B"


def test_an_unfinished_op_is_said(cast, screen):
    tree = replace(
        make_status(cast).work_tree,
        unfinished="rollback to k3f9@300 stopped after 2 of 4 paths, 3 min ago",
    )
    lines = status.render(make_status(cast, work_tree=tree), screen())
    assert (
        "unfinished rollback to k3f9@300 stopped after 2 of 4 paths, 3 min ago:"
        " --continue or --abort" in lines
    )


def test_what_needs_a_run_and_how_to_go_on(cast, screen):
    made = make_status(cast)
    assert status.need_a_run(made) == ["exp09_fp16:s0", "exp06_moe:s1"]
    assert status.next_commands(made, screen()) == [("resume", "expdb resume a9m4")]
    preempted = status_row(replace(cast.rows[0], state=RunState.PREEMPTED))
    both = replace(made, rows=(preempted, *made.rows[1:]))
    assert status.next_commands(both, screen()) == [("resume", "expdb resume x5j2")]


def declared(cast):
    """The rows of what is declared, of every kind."""
    by_id = {row.id[:4]: row for row in cast.rows}
    lr = Reason(kind="config", name="schedule.min_ratio", old=0.1, new=0.0)
    moe = Reason(kind="file", name="expdb/demo/moe.py")
    scale = Reason(kind="environment", name="JUMP", key="schedule.jump", old=30, new=10)
    rows = [
        status_row(by_id["k3f9"], "up to date"),
        replace(status_row(by_id["h4q8"], "variant"), is_declared=False),
        status_row(by_id["x5j2"], "running"),
        status_row(by_id["a9m4"], "crashed"),
        StatusRow(experiment="exp04_bad_batch", seed=1, state="missing", is_declared=True),
        StatusRow(
            experiment="exp04_bad_batch",
            seed=2,
            state="missing",
            is_declared=True,
            overrides=("seed=2",),
        ),
        StatusRow(
            experiment="exp10_long",
            state="invalid",
            is_declared=True,
            fault="schedule=linear: no such file in conf/schedule",
        ),
    ]
    for run, reasons in (("t1h6", (lr, moe)), ("c7t3", (moe,)), ("m8c2", (scale,))):
        rows.append(status_row(by_id[run], "stale", reasons=reasons))
    entry = Entry(folder=Path("/p/conf"), name="train", script="train.py")
    return make_status(cast, rows=tuple(rows), entry=entry)


def test_status_of_what_is_declared(cast, screen, golden):
    made = declared(cast)
    golden("status-declared-100.txt", status.render(made, screen()))
    golden("status-declared-pipe.txt", status.render(made, screen(terminal=False, ascii=True)))
    assert status.next_commands(made, screen()) == [
        ("run", "expdb run --missing --stale"),
        ("look", "expdb doctor --conf"),
        ("resume", "expdb resume a9m4"),
    ]
    assert "exp04_bad_batch:s2" in status.need_a_run(made)
    assert not status.is_up_to_date(made)
    good = [row for row in made.rows if row.state in ("up to date", "variant")]
    assert status.is_up_to_date(replace(made, rows=tuple(good)))


def test_seeds_fold_to_ranges():
    assert status.seeds([2, 0, 1]) == "0-2"
    assert status.seeds([0, 2, 3, 4, 9]) == "0,2-4,9"
    assert status.seeds([None]) == ""


def test_a_failed_run_shows_the_end_of_its_traceback(cast, screen, golden):
    """Long lines are cut to the screen, and control characters are shown as text."""
    run = make_exp01(cast, state=RunState.FAILED, reason="ValueError: bad")
    last = [f'  File "train.py", line {at}, in step' for at in range(10)]
    last += ["ValueError: bad \x1b[31m" + "x" * 200, "a note"]
    lines = shown.render(run, screen(), path=PATH, num_keys=41, last_words=last)
    golden("show-failed-100.txt", lines)
    at = lines.index("  traceback, last 8 lines; the log: expdb path t1h6 log")
    assert lines[at + 1].strip() == 'File "train.py", line 4, in step'
    assert lines[at + 8 : at + 9] == ["    a note"]
    assert max(map(cells, lines)) <= 100
    whole = shown.render(run, screen(), path=PATH, num_keys=41, last_words=last, all=True)
    assert whole[whole.index("  traceback") + 1].strip() == 'File "train.py", line 0, in step'
    assert "  traceback" not in shown.render(run, screen(), path=PATH, num_keys=41)
