from __future__ import annotations

import io
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expdb import text

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (5.587, "5.587"),
        (0.46, "0.460"),
        (41.2, "41.20"),
        (0.0123456, "0.0123"),
        (0, "0.000"),
        (-1.8484, "-1.848"),
        (1234.5, "1,234"),
        (12345.678, "12,346"),
        (1234567, "1.2e+06"),
        (3.2e-5, "3.2e-05"),
        (NAN, "NaN"),
        (INF, "Inf"),
        (-INF, "-Inf"),
    ],
)
def test_a_metric_has_four_digits(value, said):
    assert text.metric(value) == said


def test_all_values_of_one_metric_have_the_decimals_of_the_largest():
    values = [1.848, 12.5, NAN, None, -INF]
    decimals = text.decimals_for(values)
    assert [text.metric(value, decimals) for value in values] == [
        "1.85",
        "12.50",
        "NaN",
        "-",
        "-Inf",
    ]
    assert text.decimals_for([]) == 3
    assert text.decimals_for([1e-9]) == 6


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("train/lr", 0.003, "0.003"),
        ("train/lr", 0.00366666, "0.003667"),
        ("train/lr", 1e-5, "1e-05"),
        ("train/tokens_per_s", 18420.4, "18,420"),
        ("train/tokens_per_s", 183_000, "183k"),
        ("train/tokens_per_s", 2_340_000, "2.34M"),
        ("sys/peak_bytes", 4_600_000, "4,600,000"),
        ("train/tokens", 460_800, "460,800"),
    ],
)
def test_the_unit_in_a_name_decides_how_it_is_written(key, value, said):
    assert text.metric(value, 3, key=key) == said


@pytest.mark.parametrize(
    ("delta", "decimals", "key", "said"),
    [
        (0.18, 3, "", "+0.180"),
        (-0.009, 3, "", "-0.009"),
        (0.0, 3, "", "0.000"),
        (-0.0001, 3, "", "0.000"),
        (3340, 0, "train/tokens_per_s", "+3,340"),
        (-110, 0, "train/tokens_per_s", "-110"),
        (0, 0, "train/tokens_per_s", "0"),
        (-0.007, 3, "train/lr", "-0.007"),
        (NAN, 3, "", "NaN"),
        (None, 3, "", "-"),
        (2e-5, 6, "", "+2.0e-05"),
    ],
)
def test_a_delta_always_has_its_sign_but_zero_has_none(delta, decimals, key, said):
    assert text.signed(delta, decimals, key=key) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (9.74, "+9.7 %"), (-0.5, "-0.5 %"), (0.01, "0.0 %"), (None, ""), (INF, ""),
        (999.94, "+999.9 %"), (999.96, "+1,000 %"), (1900.0, "+1,900 %"), (-9999.4, "-9,999 %"),
        (9999.6, "+1.0e4 %"), (-12_345.0, "-1.2e4 %"), (3e120, "+3.0e120 %"),
    ],
)  # fmt: skip
def test_percent_has_one_decimal_while_that_is_short_and_a_space(value, said):
    assert text.percent(value) == said


def test_a_band_is_in_the_decimals_of_its_metric():
    assert text.band(0.02217, 3) == "±0.022"
    assert text.band(0.02217, 3, pm="+-") == "+-0.022"
    assert text.band(0.0001, 3) == "±1.0e-04"
    assert text.band(None) == ""


@pytest.mark.parametrize(
    ("num_bytes", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (212_000, "212 kB"),
        (999_960, "1.0 MB"),
        (4_600_000, "4.6 MB"),
        (141_000_000, "141 MB"),
        (2_500_000_000_000, "2.5 TB"),
    ],
)
def test_sizes_are_decimal_with_two_digits(num_bytes, said):
    assert text.size(num_bytes) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.003, "0.003"),
        (1e-05, "1e-05"),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        ("adamw", "adamw"),
        ("3", "'3'"),
        ("true", "'true'"),
        ("", "''"),
        (" a", "' a'"),
        ("it's 1e3 ", "'it''s 1e3 '"),
        ([0.8, 0.9], "[0.8, 0.9]"),
        (["a,b", 1], "['a,b', 1]"),
        ({"a": None}, "{a: null}"),
        (NAN, ".nan"),
        (-INF, "-.inf"),
        ("\x1b[31m", "\\x1b[31m"),
    ],
)
def test_config_values_are_written_as_yaml_and_never_rounded(value, said):
    assert text.config_value(value) == said


def test_long_config_values_are_cut_in_the_middle():
    made = text.config_value("a" * 20 + "b" * 20)
    assert text.cells(made) == 24
    assert made.startswith("aaaa")
    assert made.endswith("bbbb")
    assert text.config_value("a" * 40, None) == "a" * 40


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_config_float_reads_back_exactly(value):
    assert float(text.config_value(value, None)) == value


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0.0s"),
        (0.08, "0.08s"),
        (0.4, "0.4s"),
        (9.97, "10s"),
        (35, "35s"),
        (59.6, "1m00s"),
        (252, "4m12s"),
        (7500, "2h05m"),
        (273_600, "3d04h"),
    ],
)
def test_durations(seconds, said):
    assert text.duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "column", "sentence"),
    [
        (0, "0s", "0 s ago"),
        (20, "20s", "20 s ago"),
        (41 * 60, "41m", "41 min ago"),
        (5 * 3600, "5h", "5 h ago"),
        (2 * 86_400, "2d", "2 d ago"),
        (31 * 86_400, "4w", "31 d ago"),
    ],
)
def test_ages(seconds, column, sentence):
    now = 1_800_000_000_000
    assert text.age(now - seconds * 1000, now) == column
    assert text.ago(now - seconds * 1000, now) == sentence


def test_an_age_of_a_year_is_a_date_and_the_future_is_now():
    now = 1_800_000_000_000
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", text.age(now - 400 * 86_400_000, now))
    assert re.fullmatch(r"on \d{4}-\d\d-\d\d", text.ago(now - 400 * 86_400_000, now))
    assert text.age(now + 5000, now) == "0s"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(14, "0:14"), (61, "1:01"), (3840, "1:04:00"), (None, "--:--"), (NAN, "--:--"), (-3, "0:00")],
)
def test_time_left_is_a_clock(seconds, said):
    assert text.eta(seconds) == said


def test_wide_and_combining_characters_are_measured():
    assert text.cells("abc") == 3
    assert text.cells("漢字") == 4
    assert text.cells("e\u0301") == 1


def test_names_are_cut_in_the_middle_and_reasons_at_the_end():
    assert text.cut_middle("exp01+optim.lr=0.005", 18) == "exp01+opt…lr=0.005"
    assert text.cut_middle("exp01", 18) == "exp01"
    assert text.cut_end("schedule=linear: no such file", 12) == "schedule=li…"
    assert text.cut_end("abc def", 5, "..") == "abc.."


@given(st.text(max_size=40), st.integers(0, 30), st.sampled_from(["…", ".."]))
def test_a_cut_text_never_takes_more_room_than_it_has(name, width, ellipsis):
    assert text.cells(text.cut_middle(name, width, ellipsis)) <= width
    assert text.cells(text.cut_end(name, width, ellipsis)) <= width


@given(st.text(max_size=40))
def test_plain_text_never_moves_a_cursor(name):
    made = text.plain(name)
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in made)
    assert not set(made) & set("\u202a\u202b\u202d\u202e\u2066\u200b\u2028")


def test_plain_leaves_names_as_they_are():
    assert text.plain("exp01+[bold]漢é") == "exp01+[bold]漢é"
    assert text.plain("a\x1b\n\u202e\ud800") == "a\\x1b\\x0a\\u202e\\ud800"


def test_ids_are_as_long_as_tells_them_apart():
    assert text.id_length([]) == 4
    assert text.id_length(["k3f9x2m7qd", "m8c2v5tq1n"]) == 4
    assert text.id_length(["k3f9x2m7qd", "k3f9x9b6wn", "m8c2v5tq1n"]) == 6


class _Stream(io.StringIO):
    def __init__(self, encoding: str, terminal: bool) -> None:
        super().__init__()
        self._encoding = encoding
        self._terminal = terminal

    @property
    def encoding(self) -> str:
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("encoding", "terminal", "env", "ascii"),
    [
        ("utf-8", True, {}, False),
        ("UTF-8", True, {"TERM": "xterm-256color"}, False),
        ("utf-8", False, {}, True),
        ("iso8859-1", True, {}, True),
        ("utf-8", True, {"TERM": "linux"}, True),
        ("utf-8", True, {"TERM": "dumb"}, True),
        ("utf-8", True, {"EXPDB_ASCII": "1"}, True),
        ("utf-8", True, {"EXPDB_ASCII": "0"}, False),
    ],
)
def test_when_signs_are_ascii(encoding, terminal, env, ascii):
    assert text.use_ascii(_Stream(encoding, terminal), env) is ascii


def test_both_sets_of_signs_are_whole_and_ascii_is_ascii():
    for name in text.ASCII.__slots__:
        assert getattr(text.ASCII, name).isascii()
        assert not getattr(text.UNICODE, name).isascii()
        assert text.to_ascii(getattr(text.UNICODE, name)) == getattr(text.ASCII, name) or (
            name == "bar_left"
        )
    for look in text.STATE_GLYPHS.values():
        assert text.cells(look.glyph) == 1
        assert look.ascii.isascii()
        assert len(look.ascii) == 1


def test_rates_in_the_bar_have_three_digits():
    assert [text.short_rate(value) for value in (5, 999.4, 18_300, 183_000, 1.5e6)] == [
        "5",
        "999",
        "18.3k",
        "183k",
        "1.50M",
    ]


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-3, max_value=1e5))
def test_a_metric_reads_back_to_four_digits(value):
    shown = float(text.metric(value).replace(",", ""))
    assert math.isclose(shown, value, rel_tol=6e-3)
