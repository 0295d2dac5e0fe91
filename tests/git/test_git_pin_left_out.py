"""What a pin leaves out: the store, outputs, secrets, large files, and how it says so."""

from __future__ import annotations

import os

import pytest

from expdb.git import untracked
from expdb.git.command import GitTimeout
from expdb.git.snapshot import take_pin
from expdb.git.worktree import find_worktree


def pin_of(repo, **options):
    options.setdefault("store_root", repo.top / "runs")
    return take_pin(find_worktree(repo.top), **options)


def new_paths(repo, pin):
    return paths(repo, pin.pinned) - paths(repo, "HEAD")


def paths(repo, commit):
    names = repo.git("ls-tree", "-r", "-z", "--name-only", commit).split(b"\0")[:-1]
    return {os.fsdecode(name) for name in names}


def test_store_and_output_folders_are_left_out_in_silence(repo):
    for path in (
        "runs/exp=a/run=b/run.json",
        "outputs/2026/x.txt",
        "deep/outputs/y.txt",
        "multirun/z",
        "wandb/w",
        "slurm-17.out",
        "train.log",
        "pkg/__pycache__/m.pyc",
        ".submitit/job",
        "deep/runs/kept.txt",
        "slurm.out.txt",
    ):
        repo.write(path, "x")
    pin = pin_of(repo)
    assert new_paths(repo, pin) == {"deep/runs/kept.txt", "slurm.out.txt"}
    assert (pin.skipped, pin.reasons, pin.reproducible) == ((), (), True)


def test_tracked_files_are_in_whatever_their_name(repo):
    repo.write("run.log", "old")
    repo.write("outputs/kept.txt", "old")
    repo.write("server.key", "old")
    repo.write("runs/notes.txt", "old")
    repo.commit("third")
    for path in ("run.log", "outputs/kept.txt", "server.key", "runs/notes.txt"):
        repo.write(path, "new")
    tree = repo.tree(pin_of(repo).pinned)
    assert {
        tree[p][1] for p in ("run.log", "outputs/kept.txt", "server.key", "runs/notes.txt")
    } == {b"new"}


@pytest.mark.parametrize("name", ["my[store]*", "store\\x", "a b"])
def test_store_of_an_odd_name_is_left_out(repo, name):
    repo.write(f"{name}/exp=a/run.json", "x")
    repo.write("mys/seen.txt", "x")
    pin = pin_of(repo, store_root=repo.top / name)
    assert new_paths(repo, pin) == {"mys/seen.txt"}


def test_store_at_the_top_and_outside(repo, tmp_path):
    repo.write(".expdb/store.json", "x")
    repo.write("exp=a/run=b/run.json", "x")
    repo.write("mine.py", "x")
    assert new_paths(repo, pin_of(repo, store_root=repo.top)) == {"mine.py"}
    outside = new_paths(repo, pin_of(repo, store_root=tmp_path / "store"))
    assert outside == {"mine.py", ".expdb/store.json", "exp=a/run=b/run.json"}


def test_ignored_files_are_left_out_and_own_patterns_apply(repo):
    repo.write(".gitignore", "venv/\n!keep.tmp\n")
    repo.write("venv/lib.py", "x")
    repo.write("a.tmp", "x")
    repo.write("keep.tmp", "x")
    pin = pin_of(repo, exclude=["*.tmp"])
    assert new_paths(repo, pin) == {".gitignore"}


SECRETS = [".env", ".env.local", "certs/Server.PEM", "a.key", "id_rsa", "id_ed25519.bak", ".netrc"]


def test_secrets_are_left_out_and_named(repo):
    for path in [*SECRETS, "sub/credentials.json"]:
        repo.write(path, "FAKE-KEY-0001")
    repo.write("keys.py", "fine")
    repo.write("environment.yaml", "fine")
    pin = pin_of(repo)
    assert new_paths(repo, pin) == {"keys.py", "environment.yaml"}
    assert sorted(pin.skipped) == sorted([*SECRETS, "sub/credentials.json"])
    assert not pin.reproducible
    assert ".env is kept out as a secret: not captured" in pin.reasons
    blobs = repo.git("cat-file", "--batch-all-objects", "--batch")
    assert b"FAKE-KEY-0001" not in blobs


def test_a_secret_alone_leaves_the_tree_clean_but_said(repo):
    repo.write(".env", "x")
    pin = pin_of(repo)
    assert (pin.dirty, pin.snapshot, pin.num_edits) == (False, None, 0)
    assert pin.skipped == (".env",)
    assert not pin.reproducible


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/.ENV", ".env", True),
        ("a/x.env", ".env", False),
        ("conf/token.txt", "conf/*.txt", True),
        ("other/token.txt", "conf/*.txt", False),
        ("secrets/deep/x.py", "secrets/", True),
        ("secrets.py", "secrets/", False),
    ],
)
def test_secret_patterns(path, pattern, expected):
    assert untracked.is_secret(path, [pattern]) is expected


def test_one_oversized_file_is_left_out_and_named_with_its_size(repo):
    full = repo.write("big.bin", b"")
    os.truncate(full, 12_000_000)
    os.truncate(repo.write("fits.bin", b""), 10_000_000)
    pin = pin_of(repo)
    assert new_paths(repo, pin) == {"fits.bin"}
    assert pin.skipped == ("big.bin",)
    assert pin.reasons == ("big.bin is untracked and 12 MB, over 10 MB: not captured",)
    assert not pin.reproducible


def test_too_many_untracked_files_leave_the_tracked_ones(repo):
    repo.write("train.py", "lr = 8\n")
    for number in range(2_001):
        repo.write(f"many/{number}", "")
    pin = pin_of(repo)
    assert new_paths(repo, pin) == set()
    assert repo.tree(pin.snapshot)["train.py"][1] == b"lr = 8\n"
    assert pin.reasons == ("2,001 untracked files, over 2,000: none of them is captured",)
    assert (pin.reproducible, pin.skipped) == (False, ())
    (repo.top / "many/0").unlink()
    assert len(new_paths(repo, pin_of(repo))) == 2_000


def test_too_many_bytes_leave_the_tracked_ones(repo):
    for number in range(11):
        os.truncate(repo.write(f"part{number}", b""), 9_500_000)
    pin = pin_of(repo)
    assert new_paths(repo, pin) == set()
    assert pin.reasons == ("104 MB of untracked files, over 100 MB: none of them is captured",)


def test_listing_that_takes_too_long_leaves_the_tracked_ones(repo, monkeypatch):
    repo.write("train.py", "lr = 8\n")
    repo.write("new.py", "x")
    monkeypatch.setattr(untracked, "LIST_TIMEOUT_S", 1e-9)
    with pytest.raises(GitTimeout):
        untracked.list_untracked(
            find_worktree(repo.top), None, store_root=repo.top / "runs", exclude=[]
        )
    pin = pin_of(repo)
    assert new_paths(repo, pin) == set()
    assert repo.tree(pin.snapshot)["train.py"][1] == b"lr = 8\n"
    assert "none of them is captured" in pin.reasons[0]


def test_used_files_have_the_blob_ids_of_the_tree(repo, tmp_path):
    repo.write("train.py", "lr = 9\n")
    repo.write("helper.py", "h\n")
    repo.write(".gitignore", "local.py\n.venv/\n")
    repo.write("local.py", "hidden\n")
    package = repo.write(".venv/lib/python3/site-packages/p/q.py", "q")
    outside = tmp_path / "outside.py"
    outside.write_text("o")
    names = ["train.py", "helper.py", "数据/コード.py", "local.py", "gone.py"]
    pin = pin_of(repo, used=[*(repo.top / n for n in names), package, outside])
    assert list(pin.used) == sorted(["train.py", "helper.py", "数据/コード.py", "local.py"])
    for path, blob in pin.used.items():
        assert repo.git("hash-object", path).decode().strip() == blob
    assert pin.reasons == ("local.py was imported but is not captured",)
    assert not pin.reproducible
