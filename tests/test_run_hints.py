"""What `python -m suite.run` suggests in the place of a word that is no option: what the chosen benchmark has."""

import pytest

from suite.run.options import parse
from tests.command import refuses

DETECTION = "task=detection scale=mini"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"{DETECTION} batch=64", "unknown option 'batch': did you mean hyperparameters.global_batch_size?"),
        (f"{DETECTION} batch_size=64", "unknown option 'batch_size': did you mean hyperparameters.global_batch_size?"),
        (
            f"{DETECTION} lr=1",
            "did you mean hyperparameters.opt_base_learning_rate or hyperparameters.opt_end_learning_",
        ),
        (f"{DETECTION} b=64", "unknown option 'b': Allowed: "),
        (f"{DETECTION} gpus=5", "unknown option 'gpus': Allowed: "),
        ("batch=64", "unknown option 'batch': Allowed: "),
        ("task=language_modeling scale=mini segment_length=1", "did you mean hyperparameters.segment_length?"),
        ("task=language_modeling segment_length=1", "did you mean hyperparameters.segment_length?"),
        (
            "task=language_modeling scale=full segment_length=1",
            "unknown hyperparameter of the chosen benchmark 'segment_length': did you mean 'sequence_length'? ",
        ),
        (
            "task=image_classification dropout=0.1",
            "unknown hyperparameter of the chosen benchmark 'dropout': Allowed: bias_learning_rate, ",
        ),
        ("task=translation framework=pytorch", "'pytorch': did you mean 'torch'? Allowed: tensorflow, torch."),
    ],
)
def test_hints_are_of_the_chosen_benchmark(words, said):
    refuses(parse, words.split(), said)
