"""The other sides, one of each for a test, and no proxy on the way to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notify.stubs import Mail, Web, serving


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(Web()) as server:
        yield server


@pytest.fixture
def mail() -> Iterator[Mail]:
    with serving(Mail()) as server:
        yield server
