from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expdb.errors import BadInput
from expdb.store.ids import ALPHABET, LETTERS, is_id, new_id
from expdb.store.layout import DEVICES, SAFE, RunLayout, StoreLayout, encode_name

RUN = "k3f9x2m7qd"
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=300)
TRICKY = [
    "a/b", "a%2Fb", "a%2fb", "Loss", "loss", "LOSS", ".", "..", "...", ".a", "a.", "../../etc",
    "/etc/passwd", "con", "CON", "con.txt", "nul.", "com1", "lpt9.x", "a\x00b", "a\nb", " ", "a b",
    "exp=x", "~", "a~b", "-x", "\\", "c:", "é", "e\u0301", "数", "🙂", "%", "%41", "A",
    "__hive_default_partition__", "a" * 180, "a" * 181, "a" * 182, "é" * 60, "é" * 200, "數" * 200,
    "a" * 149 + "é" * 40,
]  # fmt: skip


def decode(path: str) -> str:
    """The plain reading of what the format says, written apart from the encoder."""
    out, at = bytearray(), 0
    while at < len(path):
        if path[at] == "%":
            out.append(int(path[at + 1 : at + 3], 16))
            at += 3
        else:
            out += path[at].encode()
            at += 1
    return out.decode()


def check(name: str) -> None:
    found = encode_name(name)
    assert 0 < len(found.encode()) <= 180
    assert set(found) <= SAFE | set("%ABCDEF~")
    assert not found.startswith(".")
    assert not found.endswith(".")
    assert found.split(".")[0] not in DEVICES
    assert not found.startswith("__hive_default")
    whole, tilde, digest = found.partition("~")
    if tilde:
        assert len(digest) == 16
        assert name.startswith(decode(whole))  # also: no half character
    else:
        assert decode(found) == name


@given(TEXT)
def test_a_name_in_a_path_is_safe_and_can_be_decoded(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", TRICKY)
def test_a_tricky_name_is_safe_and_can_be_decoded(name: str) -> None:
    check(name)


@given(TEXT, TEXT)
def test_two_names_have_two_paths(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


def test_no_two_tricky_names_meet_even_where_case_is_folded() -> None:
    paths = [encode_name(name) for name in TRICKY]
    assert len({path.lower() for path in paths}) == len(TRICKY)


def test_long_names_that_begin_alike_stay_apart() -> None:
    names = ["x" * 400 + str(i) for i in range(50)]
    assert len({encode_name(name) for name in names}) == 50


def test_the_form_is_the_one_that_the_format_fixes() -> None:
    assert encode_name("exp01+optim.lr=0.01") == "exp01%2Boptim.lr%3D0.01"
    assert encode_name("Loss") == "%4Coss"
    assert encode_name("..") == "%2E%2E"
    assert encode_name("a.") == "a%2E"
    assert encode_name("con.txt") == "%63on.txt"
    assert encode_name("a/b") == "a%2Fb"
    assert encode_name("a%2Fb") == "a%252%46b"
    assert encode_name("b" * 200)[:151] == "b" * 150 + "~"


@pytest.mark.parametrize("name", ["", "x\ud800", "\udcff"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        encode_name(name)


@given(TEXT)
def test_no_name_leaves_the_store(name: str) -> None:
    layout = StoreLayout(Path("/s/runs"))
    for path in (layout.run_dir(name, RUN), layout.ref(name)):
        assert layout.root in path.parents
        assert ".." not in path.parts
        assert path.resolve() == path
    assert layout.run_dir(name, RUN).parent.parent == layout.root
    assert layout.ref(name).parent == layout.refs


@pytest.mark.parametrize(
    "run", ["", "..", "../x", "K3F9X2M7QD", "k3f9x2m7q", "k3f9x2m7q/", "1" * 10]
)
def test_what_is_no_id_makes_no_run_folder(run: str) -> None:
    with pytest.raises(BadInput):
        StoreLayout(Path("/s")).run_dir("baseline", run)


def test_ids_are_lower_case_crockford_and_begin_with_a_letter() -> None:
    found = {new_id() for _ in range(500)}
    assert len(found) == 500
    assert all(is_id(run) and run[0] in LETTERS and set(run) <= set(ALPHABET) for run in found)
    assert not set("ilou") & set(ALPHABET)
    assert not any(map(is_id, ["k3f9x2m7qd\n", "k3f9x2m7qi", "k3f9x2m7qdd", "k3f9x2m7q\u0663"]))


def test_other_engines_read_the_true_names_back_from_the_folders(tmp_path: Path) -> None:
    names = [name for name in TRICKY if "~" not in encode_name(name)]
    long = [name for name in TRICKY if "~" in encode_name(name)]
    for number, name in enumerate([*names, *long]):
        layout = RunLayout(StoreLayout(tmp_path).run_dir(name, RUN))
        layout.points.mkdir(parents=True)
        pq.write_table(pa.table({"v": [number]}), layout.part(1, 0, 1, 2))
    everywhere = f"{tmp_path}/exp=*/run=*/points/part-*.parquet"
    rows = duckdb.sql(
        f"select v, exp, run from read_parquet('{everywhere}', hive_partitioning=true,"
        " hive_types_autocast=false) order by v"
    ).fetchall()
    fields = pa.schema([("exp", pa.string()), ("run", pa.string())])
    dataset = ds.dataset(
        sorted(str(path) for path in tmp_path.glob("exp=*/run=*/points/part-*.parquet")),
        partitioning=ds.partitioning(fields, flavor="hive"),
        partition_base_dir=str(tmp_path),
    )
    table = dataset.to_table().sort_by("v").to_pydict()
    assert [row[1] for row in rows][: len(names)] == names
    assert table["exp"][: len(names)] == names
    for found in (row[1] for row in rows[len(names) :]):
        assert any(name.startswith(found.split("~")[0]) for name in long)
    assert len(rows) == len(table["v"]) == len(TRICKY)
