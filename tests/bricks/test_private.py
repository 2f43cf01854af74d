"""What is given away of private models says nothing of their composition."""

import pytest

from suite.bricks import private, record
from suite.bricks.__main__ import main
from suite.bricks.brick import Brick, Call, Tensor
from suite.bricks.record import Key, Made, Timings
from suite.errors import UserError
from tests.bricks import made

BRICKS = [made.relu(size) for size in (32, 16, 64)]


def test_the_order_is_the_same_whatever_the_model():
    forward, _ = private.disguised(BRICKS, [made.model(0, 1, 2)], 0, lambda brick: True)
    backward, _ = private.disguised(BRICKS[::-1], [made.model(2, 0, 1)], 0, lambda brick: True)
    assert forward == backward


def test_the_key_leads_back_to_the_model():
    model = made.model(0, 1, 1, 2)
    every, key = private.disguised(BRICKS, [model], 0, lambda brick: True)
    (kept,) = key.models
    assert [every[at] for at in kept.bricks] == [BRICKS[at] for at in model.bricks]


def test_decoys_are_other_bricks_that_can_be_run():
    mixed = [*BRICKS, made.relu(8)]
    tried = []

    def runs(brick):
        tried.append(brick)
        return True

    several = [
        brick.model_copy(update={"tensors": (brick.tensors[0].model_copy(update={"shape": (size, 48)}),)})
        for brick in mixed
        for size in (24, 40)
    ]
    every, key = private.disguised(several, [made.model(0)], 3, runs)
    added = [each for each in every if each not in several]
    assert len(added) == key.decoys == 3
    assert all(each in tried for each in added)


def test_the_places_of_a_decoy_lie_within_its_table():
    places = Tensor(shape=(16,), dtype="int64", fresh=True, below=10_000)
    table = Tensor(shape=(10_000, 32), dtype="float32")
    call = Call(op="F.embedding", arguments=({"tensor": 0}, {"tensor": 1}))
    decoys = private.decoys_of([Brick(tensors=(places, table), calls=(call,))], 6, lambda brick: True)
    assert all(brick.tensors[0].below <= brick.tensors[1].shape[0] for _, brick in decoys)


def test_too_many_decoys_are_refused():
    with pytest.raises(UserError, match="gave 0 decoys"):
        private.disguised([made.relu(1)], [made.model(0)], 2, lambda brick: True)
    with pytest.raises(UserError, match="gave 0 decoys"):
        private.disguised([], [], 2, lambda brick: True)


def test_the_key_is_not_written_over_what_is_given_away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="which is to be given away"):
        main(["make", "models=alexnet", "private=true", "out=bricks.json", f"key={tmp_path}/bricks.json"])


def test_the_file_that_is_given_away_has_bricks_alone(tmp_path, capsys):
    own, out = made.own(tmp_path, made.TORCH), tmp_path / "bricks.json"
    assert main(["make", f"models={own}", "size=16", "private=true", "decoys=4", f"out={out}"]) == 0
    given, key = record.read(Made, out), record.read(Key, tmp_path / "bricks.key.json")
    assert given.private
    assert given.models == ()
    assert "net" not in out.read_text()
    assert len(given.bricks) == key.bricks
    assert key.decoys == 4
    content = [each.model_dump_json(exclude_defaults=True) for each in given.bricks]
    assert content == sorted(content)
    timings = tmp_path / "timings.json"
    assert main(["measure", str(out), f"out={timings}", "repeats=1"]) == 0
    assert main(["compose", str(timings), f"key={tmp_path / 'bricks.key.json'}"]) == 0
    assert record.read(Timings, timings).digest == key.digest
    assert "net" in capsys.readouterr().out
