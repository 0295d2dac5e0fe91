"""What becomes a histogram, a table or an image: the numbers, and what is refused by name."""

from __future__ import annotations

import math
import random
import struct
import zlib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from expdb.errors import BadInput
from expdb.track import hist
from expdb.track.hist import BadArray, flat, from_row, on_device, on_host
from expdb.track.image import BadImage, as_image, encode_png
from expdb.track.tables import as_table

# -------------------------------------------------------------------------------- histograms


def both(values: Any, bins: int = 8) -> list[dict[str, Any]]:
    """The histogram as counted on the host, and as an accelerator counts it."""
    tensor = values if isinstance(values, torch.Tensor) else torch.as_tensor(values)
    row = on_device(flat(tensor), bins).tolist()
    return [on_host(flat(values), bins), from_row(row)]


def same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two histograms are equal but for the last bits of sums."""
    near = ("mean", "std", "edges")
    assert all(left[name] == right[name] for name in left if name not in near)
    for name in ("mean", "std"):
        assert left[name] == pytest.approx(right[name], rel=1e-9, abs=1e-12)
    return bool(np.allclose(left["edges"], right["edges"], rtol=1e-12, atol=0))


@pytest.mark.parametrize("piece", [7, 1 << 22])
@pytest.mark.parametrize("bins", [1, 2, 64, 4096])
def test_counts_are_those_of_numpy(bins: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hist, "PIECE", piece)
    values = np.random.default_rng(0).normal(size=500)
    counts, edges = np.histogram(values, bins=bins)
    for found in both(values, bins):
        assert np.allclose(found["edges"], edges, rtol=1e-12, atol=1e-14)
        assert sum(found["counts"]) == 500
        # A value on an inner border may fall to either side by the last bit of that border.
        assert np.abs(np.cumsum(found["counts"]) - np.cumsum(counts)).max() <= 1
        assert found["mean"] == pytest.approx(values.mean())
        assert found["std"] == pytest.approx(values.std())
        assert (found["min"], found["max"]) == (values.min(), values.max())


def test_whole_numbers_fall_into_their_bins_exactly() -> None:
    values = torch.tensor([0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4])
    for found in both(values, 4):
        assert found["edges"] == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert found["counts"] == [1, 2, 3, 5]  # the last bin has both its borders in it


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8,
        torch.uint8, torch.bool, torch.float8_e4m3fn,
    ],
)  # fmt: skip
def test_every_dtype_is_counted_as_the_numbers_it_holds(dtype: torch.dtype) -> None:
    values = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0]).to(dtype)
    for found in both(values, 2):
        assert found["counts"] == [2, 3]
        assert found["mean"] == pytest.approx(0.6)


def test_what_is_not_finite_is_counted_apart() -> None:
    values = torch.tensor([1.0, math.nan, 2.0, math.inf, -math.inf, math.inf, -0.0])
    for found in both(values, 2):
        assert [found[name] for name in hist.FACTS[:4]] == [3, 1, 2, 1]
        assert (found["min"], found["max"], found["counts"]) == (0.0, 2.0, [1, 2])
    for found in both(torch.full((3,), math.nan)):
        assert [found[name] for name in hist.FACTS] == [0, 3, 0, 0, None, None, None, None]
        assert (found["edges"], found["counts"]) == ([], [])


@pytest.mark.parametrize("value", [0.0, 3.0, -1e30, 5e-324, 1.7e308])
def test_a_constant_has_one_full_bin(value: float) -> None:
    for found in both(np.full(5, value), 4):
        assert sum(found["counts"]) == max(found["counts"]) == 5
        assert found["edges"][0] <= value <= found["edges"][-1]
        assert found["edges"] == sorted(found["edges"])
        assert found["min"] == found["max"] == value


def test_the_largest_range_there_is_does_not_overflow() -> None:
    top = 1.7976931348623157e308
    left, right = both(np.array([-top, 0.0, top, top]), 4)
    assert left["counts"] == right["counts"] == [1, 0, 1, 2]
    assert np.allclose(left["edges"], [-top, -top / 2, 0.0, top / 2, top], rtol=1e-15)
    assert left["edges"][-1] == top
    assert left["std"] is None  # its square is beyond float64


def test_neighbours_among_floats_are_all_counted() -> None:
    one = np.nextafter(1.0, 2.0)
    for found in both(np.array([1.0, one, one, np.nextafter(one, 2.0)]), 64):
        assert sum(found["counts"]) == 4
        assert min(found["counts"]) >= 0
        assert found["edges"] == sorted(found["edges"])


def test_shape_and_layout_do_not_matter() -> None:
    values = torch.arange(24.0).reshape(2, 3, 4)
    wanted = on_host(flat(values), 4)
    for other in (values.permute(2, 0, 1), values.reshape(-1).flip(0), values.numpy(),
                  values.reshape(-1).tolist(), np.asfortranarray(values.numpy())):  # fmt: skip
        assert same(on_host(flat(other), 4), wanted)
    assert on_host(flat(torch.tensor(3.0)), 4)["count"] == 1
    assert on_host(flat(3.0), 4)["count"] == 1


def test_neither_generators_nor_gradients_nor_the_values_are_touched() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    weight = torch.randn(100, requires_grad=True)
    (weight * 2).sum().backward()
    before = (
        weight.detach().clone(), weight.grad.clone() if weight.grad is not None else None,
        weight._version, torch.get_rng_state(), np.random.get_state()[1].tolist(),  # type: ignore[index]
        random.getstate(),
    )  # fmt: skip
    loss = (weight**2).sum()
    on_host(flat(weight), 8)
    on_device(flat(weight), 8)
    loss.backward()
    assert torch.equal(weight.detach(), before[0])
    assert weight.grad is not None
    assert torch.equal(weight.grad, before[1] + 2 * before[0])
    assert weight._version == before[2]
    assert torch.equal(torch.get_rng_state(), before[3])
    assert np.random.get_state()[1].tolist() == before[4]  # type: ignore[index]
    assert random.getstate() == before[5]


def test_it_works_in_inference() -> None:
    with torch.inference_mode():
        for found in both(torch.arange(10.0), 2):
            assert found["counts"] == [5, 5]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (torch.empty(0), "an empty Tensor"),
        (torch.empty(0, 3, requires_grad=True), "an empty Tensor"),
        (np.empty(0), "an empty ndarray"),
        ([], "an empty list"),
        (torch.zeros(2, dtype=torch.complex64), "Tensor of torch.complex64"),
        (torch.eye(2).to_sparse(), "torch.sparse_coo"),
        (torch.empty(2, device="meta"), "without a value"),
        (np.array(["a"]), "ndarray of <U1"),
        ("text", "str of <U4"),
        (None, "NoneType of object"),
        ([[1], [1, 2]], "list of no regular shape"),
        (np.array([1j]), "complex128"),
        ([Decimal(1)], "list of object"),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_said_in_words(values: Any, words: str) -> None:
    with pytest.raises(BadArray) as caught:
        flat(values)
    assert words in str(caught.value)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_an_accelerator_counts_as_the_host_does() -> None:
    values = torch.randn(1 << 20, device="cuda", dtype=torch.bfloat16)
    values[:3] = torch.tensor([math.nan, math.inf, -math.inf])
    torch.use_deterministic_algorithms(True)
    try:
        row = on_device(flat(values), 64)
    finally:
        torch.use_deterministic_algorithms(False)
    assert row.device.type == "cuda"
    assert same(from_row(row.tolist()), on_host(flat(values.cpu()), 64))


# ------------------------------------------------------------------------------------ images


def decoded(data: bytes) -> np.ndarray[Any, Any]:
    """A PNG with filters 0 and 2 as its array, every checksum looked at."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, chunks = 8, {}
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(name + body)
        chunks[name] = body
        at += 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, rest) == (8, [0, 0, 0])
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[colour]
    raw = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert (raw[:, 0] == 2).all()
    rows = np.cumsum(raw[:, 1:].astype(np.uint64), axis=0).astype(np.uint8)
    return rows.reshape(height, width, channels)


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 1), (4, 2, 2), (7, 1, 3), (1, 9, 4)])
def test_an_array_is_its_png(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    image = as_image(pixels, max_bytes=1 << 20)
    assert (image.format, image.width, image.height) == ("png", shape[1], shape[0])
    assert np.array_equal(decoded(image.data).reshape(shape), pixels)
    assert as_image(torch.from_numpy(pixels), max_bytes=1 << 20) == image
    # Our own file is taken as a given one.
    assert as_image(image.data, max_bytes=1 << 20) == image


def test_floats_from_0_to_1_are_grey_levels() -> None:
    values = [[0.0, 1.0, 0.5], [-3.0, 7.0, math.nan]]
    for array in (np.array(values), torch.tensor(values, dtype=torch.bfloat16, requires_grad=True),
                  np.array(values, np.float16)):  # fmt: skip
        image = as_image(array, max_bytes=1 << 20)
        assert decoded(image.data)[:, :, 0].tolist() == [[0, 255, 128], [0, 255, 0]]
    assert decoded(encode_png(np.zeros((1, 1, 1), np.uint8))).tolist() == [[[0]]]
    black = as_image(np.array([[True, False]]), max_bytes=1 << 20)
    assert decoded(black.data)[:, :, 0].tolist() == [[255, 0]]


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc4\x00\x04ab\xff\xff\xc2\x00\x11\x08\x00\x30\x00\x40\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01"
)


def test_the_size_of_a_given_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEG)
    for given in (JPEG, bytearray(JPEG), tmp_path / "a.jpg", str(tmp_path / "a.jpg")):
        image = as_image(given, max_bytes=1000)
        assert (image.format, image.width, image.height) == ("jpeg", 64, 48)
        assert image.data == JPEG


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (b"", "neither PNG nor JPEG"),
        (b"GIF89a", "neither PNG nor JPEG"),
        (JPEG[:20], "damaged JPEG"),
        (b"\xff\xd8\xff\xe0\x00\x00", "damaged JPEG"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR" + bytes(8), "damaged PNG"),
        (np.zeros((3, 4, 5), np.uint8), "shape 3x4x5"),
        (np.zeros((2, 3, 4, 1), np.uint8), "shape 2x3x4x1"),
        (np.zeros((0, 4), np.uint8), "shape 0x4"),
        (np.zeros(4, np.uint8), "shape 4"),
        (np.zeros((2, 2), np.int64), "array of int64"),
        (3.0, "one value"),
        (None, "one value"),
        ([[1], [1, 2]], "no regular shape"),
        ("no-such-file.png", "cannot be read"),
        (Path(__file__).parent, "no file"),
        (Path(__file__), "neither PNG nor JPEG"),
        (np.random.default_rng(0).integers(0, 256, (200, 200), np.uint8), "over 30,000"),
        (JPEG + bytes(30_000), "over 30,000"),
    ],
)  # fmt: skip
def test_what_is_no_image_is_said_in_words(image: Any, words: str) -> None:
    with pytest.raises(BadImage) as caught:
        as_image(image, max_bytes=30_000)
    assert words in str(caught.value)


def test_a_large_file_is_not_read_to_be_refused(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadImage, match="1,099,511,627,776 bytes"):
        as_image(tmp_path / "large", max_bytes=30_000)


# ------------------------------------------------------------------------------------ tables


class Frame:
    """What a data frame is asked for."""

    def to_dict(self, form: str) -> dict[str, list[Any]]:
        assert form == "list"
        return {"a": [1, 2], "b": ["x", None]}


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([{"a": 1, "b": "x"}, {"a": 2}], None),
        ([[1, "x"], (2, None)], ["a", "b"]),
        ({"a": [1, 2], "b": ["x", None]}, None),
        (None, {"a": np.array([1, 2]), "b": ("x", None)}),
        (iter([{"a": np.int64(1), "b": "x"}, {"a": torch.tensor(2), "b": None}]), None),
        (pa.table({"a": [1, 2], "b": ["x", None]}), None),
        (Frame(), None),
        (np.array([[1, "x"], [2, None]], object), ["a", "b"]),
    ],
)
def test_one_table_in_every_form(rows: Any, columns: Any) -> None:
    assert as_table(rows, columns) == (["a", "b"], [[1, "x"], [2, None]])


def test_cells_keep_their_types() -> None:
    cells = [True, 1, 1.0, "1", None, math.inf, 2**70, "\ud800"]
    names = [str(number) for number in range(len(cells))]
    found = as_table([cells], names)[1][0]
    assert found == [*cells[:-1], "?"]
    assert [type(cell) for cell in found] == [type(cell) for cell in cells]
    assert as_table([], ["a"]) == (["a"], [])
    assert as_table([], None) == ([], [])


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        (3, None, "rows of a table are int"),
        ("ab", None, "rows of a table are str"),
        (None, None, "rows of a table are NoneType"),
        ([[1, 2]], None, "row 0 of a table is list, not a mapping"),
        ([[1, 2], [1]], ["a", "b"], "row 1 of a table is 1 values, and there are 2 columns"),
        (["ab"], ["a", "b"], "row 0 of a table is text"),
        ([3], ["a"], "row 0 of a table is int"),
        ({"a": [1], "b": []}, None, "not equally long: 'a' 1, 'b' 0"),
        ({"a": 3}, None, "column 'a' of a table is int"),
        ([{"a": [1]}], None, "column 'a', row 0 of a table is list"),
        ([{"a": Decimal(1)}], None, "is Decimal"),
        ([{1: 2}], None, "name of a column is 1, not text"),
        ([[1, 2]], ["a", "a"], "column 'a' of a table is there twice"),
    ],
)
def test_what_is_no_table_is_said_in_words(rows: Any, columns: Any, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        as_table(rows, columns)
    assert words in caught.value.message
