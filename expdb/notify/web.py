"""One POST of JSON over HTTP, by the standard library: proxies of the environment are used, nothing
is logged, and no error has the address in it.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from expdb.errors import BadInput
from expdb.notify.address import hidden
from expdb.notify.answer import Answer

MAX_ANSWER: Final = 64_000
TOO_MANY: Final = 429
WAIT_S: Final = 60.0


class Heard(NamedTuple):
    """What came back."""

    status: int
    body: bytes


def post_json(address: str, body: Any, *, timeout_s: float) -> Heard | Answer:
    """Send JSON, and return what came back; an answer where there was none, or an error."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    data = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "expdb"}
    try:
        if not address.startswith(("http://", "https://")):
            raise BadInput("its address does not begin with https://")
        request = Request(address, data=data, headers=headers, method="POST")
        with urlopen(request, timeout=timeout_s) as found:
            return Heard(found.status, found.read(MAX_ANSWER))
    except HTTPError as error:
        with error:
            said = error.read(MAX_ANSWER).decode("utf-8", "replace")
        wait_s = _wait_s(error.headers.get("Retry-After")) if error.code == TOO_MANY else 0.0
        words = f"HTTP {error.code}: {hidden(said, address)[:200]}".rstrip(": ")
        return Answer(is_taken=False, said=words, wait_s=wait_s)
    except BadInput as error:
        return Answer(is_taken=False, said=error.message)
    except (OSError, HTTPException, ValueError) as error:
        # urllib wraps what the system says in one more error.
        cause = getattr(error, "reason", None) or error
        said = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return Answer(is_taken=False, said=hidden(said, address)[:200])


def _wait_s(said: str | None) -> float:
    if said is not None and said.isascii() and said.isdigit():
        return min(float(said), 3600.0)
    return WAIT_S
