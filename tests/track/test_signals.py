"""A signal raises a flag, calls whoever was there before, and leaves no trace afterwards."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from expdb.track.signals import StopRequest


@pytest.fixture(autouse=True)
def _handlers_as_before():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_only_raises_a_flag(number):
    with StopRequest() as stop:
        assert stop.name == ""
        os.kill(os.getpid(), number)
        assert stop.name == number.name


def test_the_first_of_two_is_named():
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.name == "SIGUSR1"


def test_an_earlier_handler_is_called_too_and_comes_back():
    came = []

    def earlier(number, frame):
        came.append(number)

    signal.signal(signal.SIGUSR1, earlier)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGUSR1)
    assert (came, stop.name) == ([signal.SIGUSR1], "SIGUSR1")
    assert signal.getsignal(signal.SIGUSR1) is earlier
    os.kill(os.getpid(), signal.SIGUSR1)
    assert len(came) == 2


def test_the_default_and_ignored_come_back():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.name == "SIGUSR1"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_handlers_come_back_after_an_error():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), StopRequest():
        raise KeyboardInterrupt
    assert signal.getsignal(signal.SIGTERM) is before


def test_who_took_the_signal_meanwhile_keeps_it():
    def later(number, frame):
        raise AssertionError

    with StopRequest():
        signal.signal(signal.SIGUSR1, later)
    assert signal.getsignal(signal.SIGUSR1) is later


def test_another_thread_installs_nothing():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work():
        with StopRequest() as stop:
            seen.append((stop.name, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [("", before)]
