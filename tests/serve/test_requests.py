"""Each example of a task alone, as its tasks/<task>/requests.py gives it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from suite import config
from suite.errors import BrokenContract, UserError
from suite.serve.model import Examples, Model
from suite.store.arrays import prepared
from suite.store.modules import load_requests
from suite.store.task import load_task

ASKED = [task for task in config.names("task") if load_requests(task)]


def examples(task: str) -> Examples:
    benchmark, found = config.benchmark(task, "mini"), load_task(task)
    return Examples(
        SimpleNamespace(benchmark=benchmark), found, load_requests(task), prepared(benchmark, found, None), 1
    )


def test_these_tasks_can_be_asked_for_one_example():
    assert set(ASKED) >= {"detection", "image_classification", "speech", "translation"}


@pytest.mark.parametrize("task", ASKED)
def test_all_requests_one_after_another_are_the_test_split(task):
    found = examples(task)
    requests = [found.request(index) for index in range(found.count)]
    for name in requests[0]:
        np.testing.assert_array_equal(np.concatenate([each[name] for each in requests]), found.data[name])


@pytest.mark.parametrize("task", ASKED)
def test_a_request_is_taken_as_it_is_and_others_are_not(task):
    found = examples(task)
    request = dict(found.request(1))
    assert found.checked(request).keys() == request.keys()
    name = next(iter(request))
    spoilt = {
        "another type": {**request, name: request[name].astype(np.float64)},
        "another form": {**request, name: request[name][..., None]},
        "nothing": {each: array[:0] for each, array in request.items()},
        "two examples": {each: np.concatenate([array, array]) for each, array in request.items()},
        "other lengths": {**request, name: np.concatenate([request[name], request[name]])},
        "an array too many": {**request, "test_more": np.zeros(1)},
        "an array missing": {},
    }
    if request[name].ndim > 1:
        spoilt["another size"] = {**request, name: np.repeat(request[name], 2, axis=1)}
    for what, asked in spoilt.items():
        with pytest.raises(UserError):
            pytest.fail(f"{task}: {what} was taken: {found.checked(asked).keys()}")


@pytest.mark.parametrize("task", ASKED)
def test_what_the_model_was_trained_on_is_not_counted_for_a_request(task):
    found = examples(task)
    counted = []

    def split_sizes(data):
        counted.extend(len(data[name]) for name in data if name.startswith("train_"))
        return found.task.split_sizes(data)

    replace(found, task=SimpleNamespace(split_sizes=split_sizes)).checked(found.request(1))
    assert set(counted) <= {0}


def test_a_sentence_of_a_subword_that_is_not_in_the_vocabulary_is_not_taken():
    found = examples("translation")
    sentence = found.request(1)["test_source"].copy()
    sentence[0] = 60_000
    with pytest.raises(UserError, match="subword 60000 of a vocabulary of"):
        found.checked({"test_source": sentence})


@pytest.mark.parametrize("batch", [1, 2, 3, 32, 48])
def test_a_model_is_warm_for_every_size_of_batch(batch):
    found, sizes = examples("image_classification"), []

    def predict(data):
        sizes.append(len(data["test_images"]))
        return [0] * sizes[-1]

    model = Model(found, SimpleNamespace(predict=predict), batch)
    model.warm_up()
    warm = set(sizes)
    assert warm == {min(1 << power, batch) for power in range(batch.bit_length() + 1)}  # few, each compiled once
    for size in range(1, batch + 1):
        model.answers([found.request(0)] * size)
    assert set(sizes) == warm


def test_a_model_that_answers_too_few_is_told():
    model = Model(examples("image_classification"), SimpleNamespace(name="ours", predict=lambda data: [0]), 4)
    with pytest.raises(BrokenContract, match="predict of ours returned 1 predictions for 2 examples"):
        model.answers([model.examples.request(0)] * 2)


def test_an_answer_bears_the_number_that_it_is_given():
    numbered = load_requests("detection").numbered
    record = {"image_id": 7, "category_id": 1, "bbox": [0.0, 0.0, 1.0, 1.0], "score": 0.5}
    for index in (0, 3):
        assert numbered([record], index) == [{**record, "image_id": index}]
    assert record["image_id"] == 7
