"""What the values of conf/ may be, and what follows from them."""

import math

import pytest

from suite import config
from suite.config import folder
from suite.config.dataset import Dataset
from suite.config.models import Benchmark, Formula, System
from suite.errors import UserError

MINI = config.benchmark("image_classification", "mini")
SHARDS = [{"path": f"train/{part}.bin", "bytes": 8 + 2 * (100 + part)} for part in range(5)]
SHARDED = {
    "name": "a text",
    "licence": "a licence",
    "citation": "someone",
    "source": "somewhere",
    "train_samples": 510,
    "files": [*reversed(SHARDS), {"path": "test data/a&b.bin", "bytes": 8, "url": "http://own.example.org/b.bin"}],
    "shards": {"train_tokens": {"files": "train/", "dtype": "<u2", "offset": 8}},
    "mirror": {"url": "http://mirror.example.org/", "below": "train/"},
}


def benchmark(**changes):
    return config.checked(Benchmark, MINI.model_dump() | changes, "here")


def system(**changes):
    return config.checked(System, {"name": "ours", "title": "a machine", "default_scale": "mini"} | changes, "here")


@pytest.mark.parametrize(
    ("direction", "quality", "reached"),
    [
        *[("higher", 0.9, True), ("higher", 0.91, True), ("higher", 0.89, False), ("higher", math.nan, False)],
        *[("lower", 0.9, True), ("lower", 0.89, True), ("lower", 0.91, False), ("lower", math.nan, False)],
    ],
)
def test_the_target_itself_is_reached(direction, quality, reached):
    assert benchmark(target=0.9, direction=direction).reached(quality) == reached


def test_a_step_has_no_more_samples_than_lie_between_two_evaluations():
    hyperparameters = {**MINI.hyperparameters, "global_batch_size": 100}
    assert benchmark(hyperparameters=hyperparameters, free={}, evaluation={"first": 100, "every": 100})
    with pytest.raises(UserError, match=r"global_batch_size 100 of .* is more than the 99 samples between two"):
        benchmark(hyperparameters=hyperparameters, free={}, evaluation={"first": 100, "every": 99})


@pytest.mark.parametrize("batch", [0, 1.5, "100", True, None])
def test_a_batch_has_a_whole_number_of_samples(batch):
    with pytest.raises(UserError, match=f"global_batch_size {batch!r} of .* is not a whole number from 1"):
        benchmark(hyperparameters={**MINI.hyperparameters, "global_batch_size": batch}, free={})


def test_a_hyperparameter_has_no_name_of_another_line_of_the_log():
    with pytest.raises(UserError, match=r"hyperparameter 'seed' of .*: the log has another line of that name"):
        benchmark(hyperparameters={**MINI.hyperparameters, "seed": 3})


def test_a_formula_follows_by_its_power_and_keeps_whole_numbers_whole_and_above_0():
    root = Formula(proportional_to="global_batch_size", power=0.5, tolerance=0.1)
    assert root.of(0.1, 400, 100) == pytest.approx(0.2)
    assert (root.of(10, 400, 100), root.of(10, 50, 100), root.of(1, 1, 100)) == (20, 7, 1)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 1.5])
def test_a_part_of_the_data_is_more_than_none_and_less_than_all(share):
    with pytest.raises(UserError, match="is more than 0 and less than 1"):
        config.benchmark("language_modeling", "pilot").of_subset(share)


@pytest.mark.parametrize(("share", "shards"), [(0.01, 1), (0.2, 1), (0.21, 2), (0.99, 5)])
def test_a_part_has_the_first_shards_one_at_least_and_the_samples_that_they_hold(share, shards):
    part = config.checked(Dataset, SHARDED, "here").part(share)
    assert [file.path for file in part.shards_of("train_tokens")] == [each["path"] for each in SHARDS[:shards]]
    assert part.train_samples == sum(range(100, 100 + shards))
    assert len(part.members) == shards + 1


def test_a_result_of_a_part_or_of_a_scale_for_trying_is_not_to_be_submitted():
    full = config.benchmark("language_modeling", "full")
    assert full.submittable
    assert not full.of_subset(0.5).submittable
    assert not config.benchmark("language_modeling", "pilot").submittable


def test_a_file_has_its_own_address_or_one_on_the_mirror():
    dataset = config.checked(Dataset, SHARDED, "here")
    first, *_, last = dataset.members
    assert dataset.remote(first).url == "http://mirror.example.org/4.bin"
    assert dataset.remote(last).url == "http://own.example.org/b.bin"
    odd = last.model_copy(update={"url": None})
    assert dataset.remote(odd).url == "http://mirror.example.org/test%20data/a%26b.bin"
    assert dataset.model_copy(update={"mirror": None}).remote(first) is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"accelerator": "A"}, "hw.accelerators_per_node=0: say how many accelerators a node of hw=ours has"),
        ({"accelerators_per_node": 2}, "hw.accelerators_per_node=2: hw=ours names no accelerator"),
        ({"accelerator": "A", "accelerators_per_node": 2, "workers": 2}, "hw.workers=2: hw=ours has one worker for"),
    ],
)
def test_accelerators_have_a_name_a_number_and_a_worker_each(values, said):
    with pytest.raises(UserError, match=said):
        system(**values)


def test_a_system_has_a_worker_for_each_accelerator_of_each_node_or_as_many_as_are_asked_for():
    made = system(accelerator="A", accelerators_per_node=8, nodes=2, peak_tflops={"bf16": 100, "fp8": 200})
    assert (made.workers_per_node, made.world_size, made.device_kind) == (8, 16, "gpu")
    assert (made.peak_flops("bf16"), made.peak_flops("fp32")) == (100e12, None)
    assert (system(workers=3, nodes=2).world_size, system(nodes=2).world_size, system().device_kind) == (6, 2, "cpu")


@pytest.mark.parametrize(("text", "value"), [("3e-3", 0.003), ("1e5", 1e5), ("2.5E+3", 2500.0), ("1e", "1e")])
def test_numbers_may_be_written_as_programs_write_them(text, value):
    assert folder.value(text) == value


def test_a_file_of_conf_holds_names_and_their_values(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "CONF", tmp_path / "conf")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/list.yaml").write_text("- 1\n- 2\n")
    with pytest.raises(UserError, match=r"conf/list.yaml holds \[1, 2\]; expected names and their values"):
        folder.table(tmp_path / "conf/list.yaml")
