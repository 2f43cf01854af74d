"""Hypothesis strategies for the values that JSON can hold."""

from hypothesis import strategies as st


def json_values(floats):
    return st.recursive(
        st.none() | st.booleans() | st.integers() | floats | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    )


JSON = json_values(st.floats())  # Python's, which has NaN and Infinity
FINITE_JSON = json_values(st.floats(allow_nan=False))
