"""A stranger's YAML: read as every reader would read it, or malformed; and which of its values are equal."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.record.parsing import MalformedError, check_plain, close, differences, json_value, same, yaml_mapping
from tests.json_values import JSON


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_yaml_parses_or_is_malformed(content):
    try:
        values, lines = yaml_mapping(content)
    except MalformedError:
        return
    json.dumps(values, allow_nan=False)
    assert all(1 <= line <= content.count(b"\n") + content.count(b"\r") + 3 for line in lines.values())


@given(st.dictionaries(st.text(max_size=5), JSON.filter(lambda v: v == v), max_size=5))
def test_yaml_of_plain_values_is_read_as_it_was_written(values):
    try:
        check_plain(values)
    except MalformedError:
        return
    assert yaml_mapping(yaml.safe_dump(values).encode())[0] == values


@pytest.mark.parametrize(
    "odd",
    [
        "yes",
        "Off",
        "True",
        "NULL",
        "010",
        "0x1f",
        "0b1",
        "1_000",
        "1:30",
        "1:30.5",
        "2026-01-01",
        ".5",
        "+1",
        "=",
        "<<",
    ],
)
def test_yaml_that_readers_take_for_different_values_is_malformed(odd):
    for content in (f"a: {odd}", f"{odd}: a", f"- {odd}", f"a: {{{odd}: {{b: 1}}}}"):
        with pytest.raises(MalformedError):
            yaml_mapping(content.encode())
    assert yaml_mapping(f"a: '{odd}'".encode())[0] == {"a": odd}


@pytest.mark.parametrize(
    "content", ["%YAML 1.2\n---\na: 1\n", "%TAG ! tag:x\n---\na: 1\n", "a: 'b\u2028c'\n", "\ufeffa: 1\n"]
)
def test_yaml_that_says_how_to_be_read_is_malformed(content):
    with pytest.raises(MalformedError):
        yaml_mapping(content.encode())


@given(st.text(alphabet="0123456789abcdefxo._:+-eE~nulltrueTF=<", max_size=8))
def test_yaml_reads_a_bare_word_as_json_does_or_as_text(word):
    try:
        (value,) = yaml_mapping(f"a: {word}".encode())[0].values()
    except MalformedError:
        return
    assert isinstance(value, str) or (value is None and word in ("", "~")) or json.loads(word) == value


def test_a_truth_value_is_no_number():
    assert same([1, {"a": 0}], [1.0, {"a": 0.0}])
    assert not same(1, True)
    assert not same([{"a": 0}], [{"a": False}])
    assert differences({"a": 1, "b": 1}, {"a": True, "b": 1.0}) == [(("a",), 1, True)]


@pytest.mark.parametrize("whole", [2**63 - 1, 1 - 2**63])
def test_a_whole_number_has_64_bits(whole):
    assert json_value(str(whole)) == whole
    with pytest.raises(MalformedError, match="64 bits"):
        json_value(str(whole + (1 if whole > 0 else -1)))


def test_figures_that_are_derived_again_differ_by_rounding_alone():
    assert close(1.0, 1.0 + 5e-7)
    assert not close(1.0, 1.0 + 2e-6)
    assert close(0.0, 1e-13)
    assert not close(0.0, 1e-9)
    assert not close(True, 1)
