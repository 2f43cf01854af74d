"""Where a command writes when its long work is done, is tried before the work begins."""

from importlib import import_module
from pathlib import Path

import pytest

from suite.errors import UserError

PROBE = ("level=throughput", "model=squeezenet1_1", "size=32", "batch=2", "precision=fp32")
FORECAST = ("task=recommendation", "scale=mini", "hw=cpu")


@pytest.mark.parametrize(
    ("command", "work", "words"),
    [
        ("probe", "sweep", (*PROBE, "out={}")),
        ("probe", "sweep", (*PROBE, "--html", "{}")),
        ("probe", "sweep", ("level=trace", *PROBE[1:], "trace={}")),
        ("bricks", "Bricks", ("make", "models=squeezenet1_1", "out={}")),
        ("bricks", "Bricks", ("make", "models=squeezenet1_1", "private=true", "out=bricks.json", "key={}")),
        ("results", "read", (".", "--curves", "{}")),
        ("results", "read", (".", "--html", "{}.html")),
        ("forecast", "needed", (*FORECAST, "--picture", "{}")),
    ],
)
def test_a_place_that_cannot_be_written_is_a_mistake_before_the_work(command, work, words, tmp_path, monkeypatch):
    def begun(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    module = import_module(f"suite.{command}.__main__")
    monkeypatch.setattr(module, work, begun)
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(UserError, match="cannot write file/place"):
        module.main([word.format("file/place") for word in words])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
