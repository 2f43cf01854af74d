"""A framework is imported without what it would only take along, which can be imported all the same."""

import sys

import pytest

from suite import config
from suite.errors import UserError
from suite.harness import contestant
from suite.harness.implementation import load_implementation
from tests.command import ENVIRONMENT, run

PROGRAM = """\
import sys
from suite import config
from suite.harness.implementation import frameworks, load_implementation
framework = config.framework("tensorflow")
for task in config.names("task"):
    if "tensorflow" in frameworks(task):
        load_implementation(task, framework)
import keras
print(keras.config.backend(), keras.config.floatx(), keras.config.image_data_format())
print([name for name in ["torch", *framework.without] if name in sys.modules])
import pandas, sklearn
print(pandas.__name__, sklearn.__name__, keras.tree.flatten([1]))
"""


@pytest.mark.slow
def test_implementations_in_tensorflow_take_nothing_along_and_no_settings_of_others(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "keras.json").write_text('{"floatx": "float16", "image_data_format": "channels_first"}')
    for name, value in {"KERAS_BACKEND": "torch", "KERAS_HOME": str(tmp_path)}.items():
        monkeypatch.setitem(ENVIRONMENT, name, value)
    done = run(tmp_path, "program")
    told = "tensorflow float32 channels_last\n[]\npandas sklearn [1]\n"
    assert (done.returncode, done.stdout) == (0, told), done.stderr


def test_code_of_one_s_own_is_given_its_framework_s_settings_too(tmp_path, monkeypatch):
    """As `suite.new` copies it from a reference, which the settings of other programs would break."""
    (tmp_path / "ours.py").write_text(
        "import os\n\nACCELERATORS = 1\nBACKEND = os.environ['KERAS_BACKEND']\n\n\n"
        "def build(hyperparameters, data, seed, device):\n    import tensorflow\n"
    )
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert contestant.read(tmp_path / "ours.py").load("recommendation").BACKEND == "tensorflow"


def test_what_is_loaded_already_stays_and_what_is_not_can_be(tmp_path, monkeypatch):
    """The framework is a module that imports one that it goes without, if it is there."""
    for name in ("loaded", "left_out"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "framework_of_the_test.py").write_text(
        "import loaded\ntry:\n    import left_out\nexcept ImportError:\n    left_out = None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import loaded

    torch = config.framework("torch")
    framework = torch.model_copy(update={"module": "framework_of_the_test", "without": ["loaded", "left_out"]})
    load_implementation("recommendation", framework)
    made = sys.modules["framework_of_the_test"]
    assert (made.loaded, made.left_out, sys.modules["loaded"]) == (loaded, None, loaded)
    import left_out

    assert left_out.__name__ == "left_out"


def test_an_installed_framework_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("raise ImportError('libbroken.so: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    broken = config.framework("torch").model_copy(update={"module": "broken"})
    with pytest.raises(UserError, match=r"cannot be imported: libbroken.so: .*; install it anew: pip install .*'\."):
        load_implementation("recommendation", broken)
