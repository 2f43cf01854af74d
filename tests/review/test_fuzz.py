"""A short run of the fuzz: no mutated evidence, log or archive raises, or passes with a changed byte unsealed."""

import random
from contextlib import closing

import pytest

from tests.bench import fuzz
from tests.bench.fuzz import Worker, inputs, reviewed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_no_mutated_input_raises_or_passes_unsealed(seed, tmp_path):
    for given, _ in zip(inputs(random.Random(seed), tmp_path), range(6), strict=False):
        code = reviewed(given, tmp_path)
        assert code in (0, 1, 2)
        assert code or not given.untouched


def test_a_worker_tells_what_it_met(tmp_path, monkeypatch):
    def met(given, scratch):
        if given.kind == "crash":
            raise LookupError("a crash")
        bytearray(200 << 20)
        return 0

    monkeypatch.setattr(fuzz, "reviewed", met)
    with closing(Worker(tmp_path)) as worker:
        crash, large, untouched = (
            worker.review(fuzz.Input(kind, tmp_path, untouched=kind == "untouched"))
            for kind in ("crash", "large", "untouched")
        )
    assert crash.bad
    assert "LookupError: a crash" in crash.error
    assert (large.code, large.error) == (0, "")
    assert large.mib > 200
    assert "a byte was changed" in untouched.error
