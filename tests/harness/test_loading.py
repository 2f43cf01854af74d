"""Code that is loaded from its bytes, under a name of its own."""

import inspect

import pytest

from suite.harness import loading


@pytest.mark.parametrize("first", ["__init__.py", "build.py"])
def test_a_folder_may_gain_or_lose_its_init_between_two_loads(first, tmp_path):
    """`inspect` remembers the files of modules by their names, and is used by torch.compile."""
    for name in (first, *({"__init__.py", "build.py"} - {first})):
        module = loading.load("ours", tmp_path, {name: b"ANSWER = 1\n"}, name)
        assert module.ANSWER == 1
        assert inspect.getmodule(compile("", "elsewhere.py", "exec"), "elsewhere.py") is None
