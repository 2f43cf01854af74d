"""A batch of more than the training split has, which makes no step: one line in every task."""

import pytest

from reference_impls.image_classification import pictures, resnet
from reference_impls.language_modeling import gpt
from reference_impls.translation import transformer
from suite.errors import UserError
from tests.reference_impls.cases import BY_ID, FRAMEWORKS, build, worker

TOLD = r"^hyperparameters.global_batch_size={} is more than the \d+ {} of the training data: take a smaller one$"


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("case", "of"),
    [
        ("detection-mini", "images"),
        ("image_classification-mini", "images"),
        ("language_modeling-mini", "words"),
        ("speech-mini", "recordings"),
    ],
)
def test_an_array_s_length_tells_before_the_clock_starts(case, of, framework):
    with pytest.raises(UserError, match=TOLD.format(2**18, of)):
        build(BY_ID[case], framework, global_batch_size=2**18)


@pytest.mark.parametrize(
    ("case", "batch", "of"), [("recommendation-mini", 200, "windows"), ("translation-tiny", 1001, "sentence pairs")]
)
def test_what_is_counted_as_it_is_read_tells_at_the_first_step(case, batch, of):
    made = build(BY_ID[case], "torch", global_batch_size=batch)
    with pytest.raises(UserError, match=TOLD.format(batch, of)):
        made.train_until(1)


@pytest.mark.parametrize(
    ("case", "recipe", "order", "of"),
    [
        ("image_classification-resnet", resnet, pictures.Training, "images"),
        ("language_modeling-gpt", gpt, gpt.Sequences, "tokens in whole sequences"),
        ("translation-transformer", transformer, transformer.Pairs, "places in whole parts"),
    ],
)
def test_shards_tell_when_they_are_put_in_order(case, recipe, order, of):
    quick = BY_ID[case]
    values = {**quick.benchmark.hyperparameters, **quick.changes, "global_batch_size": 2**18}
    with pytest.raises(UserError, match=TOLD.format(2**18, of)):
        order(quick.data(), recipe.Hyperparameters.of(values), 1, worker())
