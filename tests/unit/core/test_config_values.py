"""Readers of single values."""

import pytest

from leeway.core import config_values as read


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("1", 1),
        (7, 7),
        ("2GiB", 2 * 2**30),
        ("2gib", 2 * 2**30),
        ("1.5 GiB", 3 * 2**29),
        ("512M", 512 * 2**20),
        ("3GB", 3 * 10**9),
        ("64 kB", 64_000),
    ],
)
def test_sizes(text, num_bytes):
    assert read.size_bytes(text) == num_bytes


@pytest.mark.parametrize("text", ["", "GiB", "0", "-1", "2GiBs", "1e9", True, None, "0.1"])
def test_sizes_refused(text):
    with pytest.raises(ValueError, match="512MiB"):
        read.size_bytes(text)


@pytest.mark.parametrize(
    ("num_bytes", "shown"), [(5, "5 B"), (2048, "2.0 KiB"), (3 * 2**29, "1.5 GiB")]
)
def test_shown_sizes(num_bytes, shown):
    assert read.format_size(num_bytes) == shown


@pytest.mark.parametrize("raw", [True, "x", "1.0", 1.5, None])
def test_integers_refused(raw):
    with pytest.raises(ValueError, match="integer"):
        read.integer(0, 9)(raw)


@pytest.mark.parametrize("raw", [True, "x", "inf", float("nan"), None, "1,5"])
def test_numbers_refused(raw):
    with pytest.raises(ValueError, match="number"):
        read.number(raw)


def test_numbers_below_zero_refused():
    assert read.non_negative("0") == 0.0
    with pytest.raises(ValueError, match="below zero"):
        read.non_negative(-0.1)


@pytest.mark.parametrize("raw", ["1e-40", 0.009, -0.5, 101, "1e300"])
def test_numbers_between_zero_and_the_least_refused(raw):
    with pytest.raises(ValueError, match=r"give 0, or 0\.01 to 100"):
        read.zero_or(0.01, 100)(raw)


@pytest.mark.parametrize("raw", [0, "0", 0.01, "1", 100])
def test_zero_and_what_lies_in_the_range_are_read(raw):
    assert read.zero_or(0.01, 100)(raw) == float(raw)


def test_integers_and_numbers():
    assert read.integer(0, 9)("7") == 7
    assert read.number("-0.5") == -0.5
    assert read.number(2) == 2.0


def test_choices_suggest():
    with pytest.raises(ValueError, match=r"not one of int8, int4; did you mean 'int8'\?"):
        read.choice("int8", "int4")("int88")


@pytest.mark.parametrize("raw", ["off", "none", "", None, "OFF"])
def test_optional_reads_off(raw):
    assert read.optional(read.number)(raw) is None


@pytest.mark.parametrize(
    ("raw", "value"), [("1", True), ("Yes", True), ("off", False), (True, True)]
)
def test_switches(raw, value):
    assert read.switch(raw) is value


def test_law_options_read_numbers_and_words():
    wanted = {"rank": 3, "delta": 0.3, "off_set": "coin"}
    assert read.law_options(["rank=3", "delta=0.3", "off-set=coin"]) == wanted
    assert read.law_options("rank=3, delta=0.3, off_set=coin") == wanted
    assert read.law_options(wanted) == wanted


@pytest.mark.parametrize("raw", [3, ["=1"], ["a="], {"a": True}, {"a": [1]}])
def test_law_options_refused(raw):
    with pytest.raises(ValueError, match=r"key=value|neither a number nor a word"):
        read.law_options(raw)


def test_lists():
    assert read.words("a, b,") == ("a", "b")
    assert read.texts("a,b") == ("a,b",)
    with pytest.raises(ValueError, match="empty"):
        read.texts(["a", ""])


def test_layers_are_ordered():
    flag, env = read.Origin("flag", "--x"), read.Origin("env", "LEEWAY_X")
    assert flag.is_above(env) and not env.is_above(flag) and not env.is_above(env)
    assert env.is_above(read.Origin("file", "f: x"))
    assert read.Origin("file", "f: x").is_above(read.DEFAULT_ORIGIN)
