"""Images as files: PNG and JPEG as they are, arrays as a PNG of our own making.

Arrays are HxW or HxWxC with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels: uint8, bool,
or floats from 0 to 1, which are cut to that range; NaN is 0.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8\xff"
COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}
"""Channels -> the colour type of a PNG."""
START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
MAX_SIDE = 0x7FFFFFFF
MAX_RAW = 256 * 1024 * 1024


class BadImage(Exception):
    """What is no image; the message says what it is."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image file and what is known of it."""

    format: str
    width: int
    height: int
    data: bytes


def as_image(value: Any, *, max_bytes: int) -> Image:
    """Return an array, a tensor, the bytes of a file or a path as an image file.

    A tensor on an accelerator is copied to the host now, which waits for it.

    Raises:
        BadImage: it is none, or larger than `max_bytes`.
    """
    if isinstance(value, (str, os.PathLike)):
        value = _file(Path(value), max_bytes)
    if isinstance(value, (bytes, bytearray, memoryview)):
        image = _given(bytes(value))
    else:
        pixels = _pixels(value)
        height, width = pixels.shape[:2]
        image = Image("png", width, height, encode_png(pixels))
    if len(image.data) > max_bytes:
        raise BadImage(f"an image of {len(image.data):,} bytes, over {max_bytes:,}")
    return image


def _file(path: Path, max_bytes: int) -> bytes:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise BadImage(f"the path {str(path)[:80]!r}, which is no file")
        if size > max_bytes:
            raise BadImage(f"an image of {size:,} bytes, over {max_bytes:,}")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise BadImage(f"the path {str(path)[:80]!r}, which cannot be read") from error


def _given(data: bytes) -> Image:
    if data.startswith(PNG) and data[12:16] == b"IHDR" and len(data) >= 24:
        width, height = struct.unpack_from(">II", data, 16)
        kind = "png"
    elif data.startswith(JPEG):
        kind, (width, height) = "jpeg", _jpeg_size(data)
    else:
        raise BadImage(f"{len(data):,} bytes that are neither PNG nor JPEG")
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise BadImage(f"a damaged {kind.upper()} without a size")
    return Image(kind, width, height, data)


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Return (width, height) from the start of the frame; (0, 0) when there is none."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in START_OF_FRAME:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker == 0xFF:  # fill
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # markers without a length
            at += 2
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return 0, 0


def _pixels(value: Any) -> NDArray[np.uint8]:
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    try:
        array: NDArray[Any] = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise BadImage(f"{type(value).__name__} of no regular shape") from error
    shape = "x".join(map(str, array.shape)) or "one value"
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in COLOURS or array.size == 0:
        raise BadImage(f"an array of shape {shape}; an image is HxW, HxWx3 or HxWx4")
    if array.size > MAX_RAW:
        raise BadImage(f"an array of shape {shape}, over {MAX_RAW:,} bytes")
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.kind == "f":
        level: NDArray[Any] = np.rint(np.clip(np.nan_to_num(array), 0.0, 1.0) * 255.0)
        return level.astype(np.uint8)
    if array.dtype != np.uint8:
        raise BadImage(f"an array of {array.dtype}; an image is uint8, bool, or floats from 0 to 1")
    return array.astype(np.uint8, copy=False)


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Return the PNG of an array HxWxC.

    Source: PNG specification, third edition; rows with filter 2 (the difference to the row above).
    """
    import numpy as np

    height, width, channels = pixels.shape
    rows = np.full((height, 1 + width * channels), 2, np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    rows[1:, 1:] -= pixels.reshape(height, -1)[:-1]
    head = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 6)
    return PNG + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
