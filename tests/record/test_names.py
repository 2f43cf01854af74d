"""Submitters' names: an honest one passes in any script, and one that looks like another does not."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.record.names import host_of, problem


@pytest.mark.parametrize(
    "name", ["example-org", "Universität, Inc.", "示例 机构", "Пример 2", "Παράδειγμα", "مثال", "A & B (C)", "unknown"]
)
def test_a_plain_name_is_one(name):
    assert problem(name) == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "1 to 100"),
        ("a" * 101, "1 to 100"),
        ("example\u200b-org", "U+200B"),
        ("example\u202eorg", "U+202E"),
        ("example\u00a0org", "U+00A0"),
        ("example\ufe0f-org", "U+FE0F"),
        ("example\u3164", "U+3164"),
        ("example\n", "U+000A"),
        ("example ", "a space too many"),
        ("example  org", "a space too many"),
        ("\uff45xample", "other characters than 'example'"),
        ("ex\u0430mple", "CYRILLIC and LATIN"),
        ("\u03bfrg", "GREEK and LATIN"),
    ],
)
def test_a_name_that_is_read_as_another_is_none(name, said):
    assert said in problem(name)


@given(st.text(max_size=20), st.characters(categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"]), st.text())
def test_no_character_that_nobody_sees_passes(before, odd, after):
    assert odd == " " or problem(before + odd + after)


@given(st.text(min_size=1, max_size=30))
def test_what_passes_is_its_own_plain_form(name):
    if not problem(name):
        assert name == unicodedata.normalize("NFKC", name).strip()
        assert name.isprintable()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://stamps.example.org/tsr", "stamps.example.org"),
        ("https://user:word@stamps.example.org/tsr", None),  # a log names the host, and no secret
        ("ftp://stamps.example.org/", None),
        ("http://stamps.example.org:0/", None),
        ("http://[stamps", None),
        (f"http://stamps.example.org/{'x' * 200}", None),
    ],
)
def test_a_witness_is_named_by_an_address_without_user(url, host):
    assert host_of(url) == host
