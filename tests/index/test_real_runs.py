"""The index over stores that training processes wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from expdb.actions.reindex import reindex
from expdb.index.reader import open_reader
from expdb.query.listing import listing
from expdb.query.rank import ranking
from expdb.store.store import Store, open_store

TRAIN = """
import os, signal, sys
import expdb

kill, lr = sys.argv[2] == "kill", float(sys.argv[3])
config = {"optim": {"lr": lr}, "seed": 0}
run = expdb.start(config, name="exp01", store=sys.argv[1], objective="val/loss")
for step in range(1, 101):
    run.log({"train/loss": 3.0 / step}, step=step)
    if step % 50 == 0:
        run.log({"val/loss": lr + 1.0 / step}, step=step)
if kill:
    os.kill(os.getpid(), signal.SIGKILL)
run.finish()
print(run.id)
"""


def train(store: Path, how: str, lr: float) -> str:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(store), how, str(lr)],
        cwd=store.parent, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == (-signal.SIGKILL if how == "kill" else 0), done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Store:
    root = tmp_path_factory.mktemp("trained") / "runs"
    train(root, "finish", 0.01)
    train(root, "finish", 0.02)
    train(root, "kill", 0.001)
    return open_store(root)


def test_finished_and_killed_runs_are_listed_with_all_their_points(trained: Store) -> None:
    with open_reader(trained) as reader:
        rows = listing(reader).rows
        counts = reader.rows("SELECT key, sum(count) FROM series GROUP BY key ORDER BY key")
        assert reader.warnings == ()
    assert [(str(row.state), row.value, row.last_step) for row in rows] == [
        ("crashed", 0.011, 100),
        ("finished", 0.03, 100),
        ("finished", 0.02, 100),
    ]
    assert counts[0][0] == "train/loss"
    assert dict(counts) == {"train/loss": 300, "val/loss": 6}


def test_a_killed_run_is_sealed_by_the_build_and_never_wins(trained: Store) -> None:
    with open_reader(trained) as reader:
        found = ranking(reader)
    assert [row.value for row in found.rows] == [0.02, 0.03]
    assert [why for _, why in found.not_ranked] == ["crashed"]
    assert not list(trained.root.glob("exp=*/run=*/attempts/*/*.wal"))


def test_config_keys_can_be_asked_for(trained: Store) -> None:
    sql = """
        SELECT r.state FROM runs r JOIN params p ON p.run = r.id
        WHERE p.key = 'optim.lr' AND p.number < 0.005
    """
    with open_reader(trained) as reader:
        assert reader.rows(sql) == [("crashed",)]


def test_reindex_builds_from_the_folders_alone(trained: Store) -> None:
    with open_reader(trained) as reader:
        before = sorted(reader.rows("SELECT * EXCLUDE (version) FROM runs"), key=str)
    for path in trained.layout.index.iterdir():
        path.write_bytes(b"")
    done = reindex(trained)
    assert (done.num_runs, done.warnings) == (3, ())
    assert done.seconds > 0
    with open_reader(trained) as reader:
        assert sorted(reader.rows("SELECT * EXCLUDE (version) FROM runs"), key=str) == before
