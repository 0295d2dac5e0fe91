"""What `log_text`, `log_hist`, `log_table` and `log_image` make of their arguments.

Invariant: a call is refused whole, by key and step, before anything is written; the caller's values
stay as they are.
"""

from __future__ import annotations

import json
from typing import Any

from expdb.errors import BadInput
from expdb.redact import Redactor
from expdb.store.files import plain
from expdb.store.templates import refusal
from expdb.track import hist
from expdb.track.hist import BadArray
from expdb.track.image import BadImage, as_image
from expdb.track.tables import as_table

MAX_BYTES = 16 * 1024 * 1024
Body = tuple[dict[str, Any], bytes]


def checked_key(key: Any) -> str:
    """Return a key that can be stored.

    Raises:
        BadInput: it is empty, no text, or too long.
    """
    if not isinstance(key, str):
        raise BadInput(f"a media key is {key!r:.60}, not text")
    why = refusal(key)
    if why:
        raise BadInput(f"the media key {key[:60]!a} {why}")
    return key


def text_body(text: Any, redactor: Redactor, *, where: str) -> Body:
    """Return the fields of a text; half a surrogate pair becomes a question mark."""
    if not isinstance(text, str):
        raise BadInput(f"{where} is {type(text).__name__}, not text")
    said = redactor.known(text).encode("utf-8", "replace")
    _require_size(len(said), where)
    return {"text": said.decode()}, b""


def table_body(rows: Any, columns: Any, redactor: Redactor, *, where: str) -> Body:
    """Return the fields of a table."""
    try:
        names, found = as_table(rows, columns)
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}", hint=error.hints) from error
    cells = [
        [redactor.known(value) if isinstance(value, str) else value for value in row]
        for row in found
    ]
    said = json.dumps(plain(cells), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    _require_size(len(said.encode()), where)
    return {"columns": names, "num_rows": len(cells), "rows": said}, b""


def image_body(image: Any, caption: str, redactor: Redactor, *, where: str) -> Body:
    """Return the fields of an image, and its file."""
    try:
        found = as_image(image, max_bytes=MAX_BYTES)
    except BadImage as error:
        raise BadInput(f"{where} is {error}") from error
    said = redactor.known(str(caption)).encode("utf-8", "replace").decode()
    body = {
        "caption": said,
        "format": found.format,
        "width": found.width,
        "height": found.height,
    }
    return body, found.data


def flat_values(values: Any, bins: Any, *, where: str) -> Any:
    """Return what a histogram counts, as one row, on its own device."""
    if not isinstance(bins, int) or isinstance(bins, bool) or not 1 <= bins <= hist.MAX_BINS:
        raise BadInput(f"{where} has {bins!r:.40} bins", hint=f"1 to {hist.MAX_BINS}")
    try:
        return hist.flat(values)
    except BadArray as error:
        raise BadInput(f"{where} is {error}") from error


def _require_size(size: int, where: str) -> None:
    if size > MAX_BYTES:
        raise BadInput(
            f"{where} has {size:,} bytes, over {MAX_BYTES:,}",
            hint="keep it as a file: run.artifact(path)",
        )
