"""What an import refuses, says or bounds: two values of one name, other digests and encodings."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import expdb
from expdb.actions.fsck import fsck
from expdb.errors import BadInput
from expdb.importers.found import Skipped, number, whole
from expdb.importers.wanted import wanted_of
from expdb.store.layout import RunLayout

RECORD = {"expdb": "run", "id": "k3f9x2m7qd", "experiment": "a", "config": {"lr": 1}}
EMPTY = [".expdb", ".gitignore"]


def entries(place: Any) -> list[str]:
    return sorted(entry.name for entry in place.root.iterdir())


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "step,loss,x,loss\n1,2,3,4\n", "a.csv has two columns loss: columns 2 and 4"),
        ("a.csv", "step,Step,x,step\n1,2,3,4\n", "has two columns step: columns 1 and 4"),
        ("a.csv", "key,step,value,Value\na,1,2,3\n", "has two columns value: columns 3 and 4"),
        ("a.jsonl", '{"step": 1, "a": 1, "a": 2}\n', "line 1 has the key a twice in one object"),
        ("a.jsonl", '{"step": 1, "x": {"a": 1, "a": 2}}', "line 1 has the key a twice"),
        ("a.jsonl", '{"step": 1, "x": {"a": 1}, "x/a": 2}', "line 1 has two values under the name"),
        ("a.json", '{"log_history": [],\n"log_history": []}', "a.json has the key log_history"),
        ("a.jsonl", json.dumps(RECORD) + "\n" + json.dumps(RECORD), "describes run k3f9x2m7qd tw"),
    ],
)
def test_two_values_under_one_name_are_refused(
    place: Any, tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        place.take(path)
    assert said in caught.value.message
    assert entries(place) == EMPTY


def test_columns_without_a_name_and_repeats_in_a_log_are_no_fault(
    place: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(",step,loss,,\n0,1,2.5,,\n")
    (made,) = place.take(tmp_path / "a.csv").runs
    assert place.run(made.id).series["loss"].last == 2.5
    (tmp_path / "a.log").write_text("step 1 loss: 3 (loss: 2)\n")
    found = place.take(tmp_path / "a.log")
    assert place.run(found.runs[0].id).series["loss"].last == 3
    assert found.skipped == (Skipped("a second value under one name", 1, 1),)


def test_parquet_columns_of_one_name_are_refused(place: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = [pa.array([1, 2]), pa.array([0.5, 0.25]), pa.array([0.1, 0.2])]
    pq.write_table(pa.Table.from_arrays(columns, ["step", "loss", "loss"]), path)
    with pytest.raises(BadInput, match="two columns loss: columns 2 and 3"):
        place.take(path)
    assert entries(place) == EMPTY


def test_new_names_that_meet_are_refused(place: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"step": 1, "a": 1}\n{"step": 2, "b": 2}\n')
    for words in (["a=b"], ["a=c", "b=c"]):
        with pytest.raises(BadInput, match="has a and b, and both would be called"):
            place.take(path, names=words)
    assert entries(place) == EMPTY
    (made,) = place.take(path, names=["a=b", "b=a"]).runs
    assert sorted(place.run(made.id).series) == ["a", "b"]
    doubles: list[dict[str, Any]] = [{"names": ["a=x", "a=y"]}, {"config": ["lr=1", "lr=2"]}]
    for said in doubles:
        with pytest.raises(BadInput, match="given twice"):
            wanted_of(**said)
    with pytest.raises(BadInput, match="key a twice"):
        wanted_of(config=['x={"a": 1, "a": 2}'])


def test_a_digest_is_that_of_the_config(place: Any, other: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(RECORD))
    right = place.run(place.take(path).runs[0].id).digest
    path.write_text(json.dumps({**RECORD, "digest": right}))
    assert place.take(path).skipped == ()
    for wrong in ("v1:" + "0" * 64, "v9:1"):
        path.write_text(json.dumps({**RECORD, "digest": wrong}))
        found = place.take(path)
        assert [item.reason for item in found.skipped] == [
            "a config digest that is not its config's: made anew"
        ]
        assert other.run(other.take(path).runs[0].id).digest == right
    rules = {"digest": {"ignore": ["lr"]}, "seed_key": "seed"}
    path.write_text(json.dumps({**RECORD, "id": "t1h6y3cz8r", "settings": rules}))
    assert place.run(place.take(path).runs[0].id).digest != right
    path.write_text(json.dumps({**RECORD, "settings": {"digest": {"ignore": [3]}}}))
    with pytest.raises(BadInput, match="no run of an export: `ignore`"):
        place.take(path)


def test_an_import_leaves_what_rank_orders_by(place: Any, tmp_path: Path) -> None:
    with expdb.start({"expdb": {"print": "quiet"}}, store=place.root, objective="val/loss") as run:
        run.log({"val/loss": 1.0, "acc": 0.5}, step=1)
    path = tmp_path / "a.csv"
    path.write_text("step,acc\n1,0.5\n")
    later = time.time() + 1e6
    os.utime(path, (later, later))
    (made,) = place.take(path, objective="acc:max").runs
    ranking = expdb.open(place.root).rank()
    assert ranking.objective.metric == "val/loss"
    assert place.run(made.id).objective.metric == "acc"


def test_where_all_was_imported_the_newest_says_it(place: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,acc\n1,0.5\n")
    place.take(path, objective="acc:max")
    assert expdb.open(place.root).rank().objective.metric == "acc"


def test_what_a_second_import_asks_for_is_not_passed_over(place: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,acc\n1,0.5\n")
    said: dict[str, Any] = {
        "objective": "acc:max", "names": ["acc=val/acc"], "seed": 3, "config": ["lr=1"],
        "experiment": "x",
    }  # fmt: skip
    (made,) = place.take(path).runs
    (again,) = place.take(path, **said).runs
    assert (again.id, again.is_new) == (made.id, False)
    assert again.unused == ("--exp", "--seed", "--config", "--objective", "--rename")
    assert place.take(path).runs[0].unused == ()
    path.write_text("step,acc\n1,0.25\n")
    assert place.take(path, **said).runs[0].is_new
    assert place.take(path, **said).runs[0].unused == ()
    assert place.take(path, objective="acc").runs[0].unused == ("--objective",)


def test_a_seed_that_no_index_holds_is_refused(place: Any, tmp_path: Path) -> None:
    path, most = tmp_path / "a.jsonl", 10**38 - 1
    path.write_text(json.dumps({**RECORD, "seed": most + 1}))
    with pytest.raises(BadInput, match="at most 38 digits"):
        place.take(path)
    with pytest.raises(BadInput, match="at most 38 digits"):
        wanted_of(config=[f"seed={most + 1}"])
    quiet = {"expdb": {"print": "quiet"}}
    for seed, words in ((10**38, "at most 38"), (True, "True, not a whole"), ("1", "'1', not a")):
        with pytest.raises(BadInput, match=words):
            expdb.start(quiet, store=place.root, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="at most 38 digits"):
        expdb.start({**quiet, "seed": -(10**38)}, store=place.root)
    path.write_text(json.dumps({**RECORD, "seed": most}))
    (made,) = place.take(path).runs
    with expdb.start({**quiet, "seed": -most}, store=place.root) as run:
        pass
    rows = dict(place.ask("select id, seed::VARCHAR from runs"))
    assert rows == {made.id: str(most), run.id: str(-most)}
    assert place.run(run.id).seed == -most
    path = place.root / place.run(run.id).path / "run.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "seed": 10**40}))
    damaged = place.run(run.id)
    assert (damaged.seed, damaged.problems) == (
        None,
        ("the seed in run.json has over 38 digits, and is left out",),
    )


@pytest.mark.parametrize(
    ("encoding", "mark", "said"),
    [
        ("utf-16", b"", "UTF-16"),
        ("utf-16-le", b"", "UTF-16LE"),
        ("utf-16-be", b"", "UTF-16BE"),
        ("utf-16-be", b"\xfe\xff", "UTF-16"),
        ("utf-32", b"", "UTF-32"),
    ],
)
def test_other_encodings_are_named(
    place: Any, tmp_path: Path, encoding: str, mark: bytes, said: str
) -> None:
    data = mark + "step,loss\n1,2.5\n2,2.25\n".encode(encoding)
    for name, form in (("my run.csv", None), ("log.txt", "log"), ("a.jsonl", None)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadInput) as caught:
            place.take(tmp_path / name, format=form)
        assert caught.value.message == f"{name} is {said} text, not UTF-8"
    (tmp_path / "my run.csv.gz").write_bytes(gzip.compress(data))
    with pytest.raises(BadInput) as caught:
        place.take(tmp_path / "my run.csv.gz")
    assert caught.value.hints == (f"gunzip -c 'my run.csv.gz' | iconv -f {said} -t UTF-8 > NEW",)
    assert entries(place) == EMPTY


def test_zero_bytes_at_the_end_of_a_log_are_not_an_encoding(place: Any, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"step 1 loss: 3\n" * 900 + b"\0" * 512)
    (made,) = place.take(tmp_path / "a.log", names=["loss=x"]).runs
    assert made.num_points == 900


# -------------------------------------------------------------------- files of few bytes, and much


@pytest.mark.slow
def test_a_text_that_a_dictionary_has_once_is_not_repeated(place: Any, tmp_path: Path) -> None:
    """200,000 rows of a text of 1 MB would be 200 GB; the file has some kilobytes."""
    rows, path = 200_000, tmp_path / "a.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 1_000_000])
    table = pa.table({"step": range(rows), "loss": [0.5] * rows, "why": text})
    pq.write_table(table, path, store_schema=False, dictionary_pagesize_limit=1 << 30)
    assert path.stat().st_size < 2_000_000
    found = place.take(path)
    assert found.runs[0].num_points == rows
    assert found.skipped == (Skipped("a value is text", rows, 1),)


def test_lists_and_structures_are_passed_over_unread(place: Any, tmp_path: Path) -> None:
    table = {"step": [1, 2], "hist": [[1.0] * 9, []], "at": [{"x": 1}, {"x": 2}], "loss": [1, 2]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    found = place.take(tmp_path / "a.parquet")
    assert list(place.run(found.runs[0].id).series) == ["loss"]
    assert found.skipped == (Skipped("a column of lists or structures", 2, 1),)


def test_what_the_metadata_says_is_bounded(
    place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"step": range(1000), "x": [0.5] * 1000}), path)
    with monkeypatch.context() as patch:
        patch.setattr("expdb.importers.parquet.MAX_VALUES", 1999)
        with pytest.raises(BadInput, match="1,000 rows of 2 columns, over 1,999 values"):
            place.take(path)
    with monkeypatch.context() as patch:
        patch.setattr("expdb.importers.parquet.MAX_GROUP_BYTES", 100)
        with pytest.raises(BadInput, match="row group 1 of"):
            place.take(path)
    assert entries(place) == EMPTY
    monkeypatch.setattr("expdb.importers.parquet.BATCH_VALUES", 7)
    assert place.take(path).runs[0].num_points == 1000


@pytest.mark.parametrize(
    ("text", "found"),
    [("1_0", None), ("١", None), ("１", None), (" 12 ", 12), ("-3", -3), ("+4.0", 4), ("1e2", 100)],
)
def test_a_step_has_ascii_digits(text: str, found: int | None) -> None:
    assert whole(text) == found
    assert number(text) == found


def test_a_long_text_is_no_number_at_once() -> None:
    assert (number("9" * 1_000_000), whole("9" * 1_000_000)) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_import_that_is_stopped(place: Any, tmp_path: Path, sent: signal.Signals) -> None:
    """Ctrl-C leaves nothing; what a kill leaves is named, and is no run."""
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("step," + ",".join(f"m{at}" for at in range(50)) + "\n")
        for step in range(8_000):
            file.write(f"{step}," + ",".join(["0.5"] * 50) + "\n")
    words = [sys.executable, "-m", "expdb.cli.main", "--store", str(place.root), "import"]
    job = subprocess.Popen(
        [*words, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    while job.poll() is None and not list(place.root.glob("exp=*/.tmp-run=*/writer.json")):
        time.sleep(0.01)
    assert fsck(place.store).findings == ()  # it is being written
    job.send_signal(sent)
    assert job.wait() == (130 if sent is signal.SIGINT else -signal.SIGKILL)
    left = list(place.root.glob("exp=*/.tmp-run=*"))
    named = [item.path for item in fsck(place.store).findings if item.kind == "leftover"]
    assert named == [folder.relative_to(place.root).as_posix() for folder in left]
    assert len(left) == (sent is signal.SIGKILL)
    if sent is signal.SIGINT:
        assert entries(place) == EMPTY
        return
    (made,) = place.take(path).runs
    assert made.num_points == 8_000 * 50
    assert not (RunLayout(place.root / place.run(made.id).path).root / "writer.json").exists()
