"""Files of bricks, timings and keys are hostile: whatever they hold is read, or refused in one line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.bricks import record
from suite.bricks.__main__ import main
from suite.bricks.arguments import check_argument
from suite.bricks.brick import Brick, Tensor
from suite.bricks.record import Key, Made, Time, Timings
from suite.errors import UserError
from tests.bricks import made
from tests.command import refuses
from tests.json_values import JSON

VALID = {
    Made: made.bricks(made.relu(), models=(made.model(0, 0),)),
    Timings: made.timings(Time(hot=(1.0, 2.0), cold=(3.0,), held=7), models=(made.model(0, 0),)),
    Key: Key(bricks=1, decoys=0, models=(made.model(0),)),
}


@pytest.mark.parametrize("kind", VALID, ids=lambda kind: kind.__name__)
def test_what_is_written_is_read(kind, tmp_path):
    record.write(VALID[kind], tmp_path / "file.json")
    assert record.read(kind, tmp_path / "file.json") == VALID[kind]
    told = json.loads((tmp_path / "file.json").read_text())
    assert (told["format"], told["version"]) == (VALID[kind].format, VALID[kind].version)


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


@pytest.mark.parametrize("kind", VALID, ids=lambda kind: kind.__name__)
@settings(max_examples=40)
@given(data=st.data())
def test_a_file_with_anything_anywhere_is_read_or_refused(kind, data, tmp_path):
    values = json.loads(VALID[kind].model_dump_json())
    path = data.draw(st.sampled_from([each for each in places(values) if each]))
    at = values
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = data.draw(JSON)
    file = tmp_path / "file.json"
    file.write_text(json.dumps(values))
    said = ""
    try:
        assert isinstance(record.read(kind, file), kind)
    except UserError as error:
        said = str(error)
    assert "\n" not in said


@given(value=JSON)
def test_an_argument_is_plain_or_refused(value):
    try:
        check_argument(value)
    except ValueError:
        return
    assert json.loads(json.dumps(value)) == value or value != value


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"format": "suite.timings"}, "'suite.timings'"),
        ({"bricks": [{"tensors": [], "calls": [{"op": "F.relu", "arguments": [{"tensor": 0}]}]}]}, "does not have"),
        ({"bricks": [{"tensors": [], "calls": []}]}, "at least 1"),
        ({"models": [made.model(7).model_dump()]}, "not there"),
        ({"models": [made.model(0, 0).model_copy(update={"starts": (0, 3)}).model_dump()]}, "batches start"),
        ({"granularity": 11}, "less than or equal to 10"),
        ({"models": [{**made.model().model_dump(), "left_out": {"a\nb\x1b": None}}]}, r"left_out\.a\\nb\\x1b is None"),
        ({"sources": "x"}, "unknown field"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(changed, said, tmp_path):
    file = tmp_path / "bricks.json"
    file.write_text(json.dumps({**VALID[Made].model_dump(mode="json"), **changed}))
    with pytest.raises(UserError, match=said):
        record.read(Made, file)


@pytest.mark.parametrize(
    "values",
    [
        {"shape": [1 << 20, 1 << 20], "dtype": "float32"},
        {"shape": [-1], "dtype": "float32"},
        {"shape": [4, 4], "strides": [1, 1], "dtype": "float32"},
        {"shape": [2, 2], "strides": [1 << 40, 1], "dtype": "float32"},
        {"shape": [1], "dtype": "object"},
    ],
)
def test_a_tensor_that_cannot_be_is_refused(values):
    with pytest.raises(ValueError, match=r"tensor|elements|dtype"):
        Tensor.model_validate(values)


@pytest.mark.parametrize("op", ["os.system", "torch.load", "F.__class__", "Tensor.backward", "eval", "Conv2D"])
def test_a_name_that_is_not_in_the_table_reaches_no_code(op, tmp_path):
    file = tmp_path / "bricks.json"
    call = made.relu().calls[0].model_copy(update={"op": op})
    record.write(made.bricks(made.relu().model_copy(update={"calls": (call,)})), file)
    with pytest.raises(UserError, match="which bricks do not have"):
        main(["measure", str(file), f"out={tmp_path / 'timings.json'}"])


def test_a_precision_that_bricks_cannot_be_run_in_is_said(tmp_path):
    file = tmp_path / "bricks.json"
    record.write(made.bricks(made.relu()).model_copy(update={"precision": "int8"}), file)
    with pytest.raises(UserError, match=r"bricks.json is in precision int8: bricks run in fp32, tf32, bf16, fp16"):
        main(["measure", str(file), f"out={tmp_path / 'timings.json'}"])


def test_a_brick_that_would_fill_the_memory_is_not_run(tmp_path, capsys):
    file, out = tmp_path / "bricks.json", tmp_path / "timings.json"
    bomb = Brick.model_validate({"tensors": [], "calls": [{"op": "torch.zeros", "arguments": [[1 << 45]]}]})
    record.write(made.bricks(bomb, made.relu()), file)
    assert main(["measure", str(file), f"out={out}", "repeats=2"]) == 0
    refused, timed = record.read(Timings, out).times
    assert "more than" in refused.why
    assert not refused.hot
    assert len(timed.hot) == 2
    assert "1 of 2 bricks timed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("make", "models=keras", "framework=torch", "out=b.json"), "models=keras are of tensorflow: leave out"),
        (("make", "models=resnet18", "out=b.json", "--json"), "--json is of compose: make writes a file"),
    ],
)
def test_words_that_would_do_nothing_are_refused(words, said):
    refuses(main, words, said)
