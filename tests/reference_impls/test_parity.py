"""Every implementation goes through this: the frameworks are one recipe, and each keeps the contract of the harness."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from suite import config
from suite.errors import UserError
from suite.harness import contract
from suite.harness.contract import evaluation_data
from suite.harness.implementation import Device, load_implementation
from suite.measure.machine import detect
from suite.store.arrays import prepared
from suite.store.task import for_run, load_task
from tests.command import run
from tests.reference_impls.builds import Builds, assert_same, goes_on
from tests.reference_impls.cases import BY_ID, CASES, FRAMEWORKS
from tests.reference_impls.flops import COUNTERS

slow = pytest.mark.slow
soak = pytest.mark.soak
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


@pytest.fixture(scope="module")
def builds(request):
    return Builds(request.param)


# Whose trajectories take more than a few seconds.
LONG = (
    "image_classification-resnet",
    "language_modeling-mini",
    "recommendation-small",
    "reinforcement_learning-small",
    "speech-mini",
    "translation-tiny",
    "translation-transformer",
)


# Whose network has another size in another case, and is the same code.
ALIKE = ("recommendation-mini", "reinforcement_learning-mini", "translation-mini", "translation-small")


# What TensorFlow compiles for ten seconds and more, here twice; tests of their dropout tell most of the same.
COMPILED = ("image_classification-resnet", "translation-tiny", "translation-transformer")


def mark(case, long=()):
    if case.id in ALIKE:
        return soak
    return () if case.resumed and case.id not in long else slow


def each(cases):
    params = [pytest.param(case, id=case.id, marks=mark(case)) for case in cases]
    return pytest.mark.parametrize("builds", params, indirect=True, scope="module")


def each_trained(cases, soaked=COMPILED):
    """Those trained for long are small; the others may have a benchmark's own network, which takes its time.

    Those of the names `soaked` soak in TensorFlow.
    """
    params = [
        pytest.param(
            case,
            framework,
            id=f"{framework}-{case.id}",
            marks=soak if framework == "tensorflow" and case.id in soaked else mark(case, LONG),
        )
        for framework in FRAMEWORKS
        for case in cases
        if case.resumed
    ]
    return pytest.mark.parametrize(("builds", "framework"), params, indirect=["builds"], scope="module")


every_case = each(CASES)
trained = each_trained(CASES)
trained_on_data = each_trained([case for case in CASES if case.benchmark.dataset.train_samples])
low_precision = each([case for case in CASES if case.learned])


def floats(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in state.items() if array.dtype.kind == "f"}


@every_case
def test_all_start_from_the_same_parameters(builds):
    ours = builds.initial("torch")
    for framework in FRAMEWORKS[1:]:
        assert_same(ours, builds.initial(framework))


@every_case
def test_all_take_the_same_steps(builds):
    case = builds.case
    torch, *others = [builds.fresh(framework) for framework in FRAMEWORKS]
    losses = [torch.train_until(samples).loss for samples in case.until]
    ours = torch.state_dict()
    before = floats(builds.initial("torch"))
    assert max(np.abs(array - before.get(name, 0)).max(initial=0) for name, array in floats(ours).items()) > 1e-3
    for other in others:
        assert [other.train_until(samples).loss for samples in case.until] == pytest.approx(losses, **case.loss)
        theirs = other.state_dict()
        assert ours.keys() == theirs.keys()
        for name, array in ours.items():
            if array.dtype.kind != "f":
                assert np.array_equal(array, theirs[name]), name
                continue
            assert np.abs(array - theirs[name]).max(initial=0) < case.state, name
            if case.relative:
                atol = 1e-5 * np.abs(array).max(initial=0)
                assert np.allclose(array, theirs[name], rtol=1e-3, atol=atol), name


@every_case
def test_torch_weights_give_the_same_outputs_for_the_same_work(builds):
    case, data = builds.case, builds.case.data()
    torch, *others = [builds.fresh(framework) for framework in FRAMEWORKS]
    torch.train_until(case.until[-1])
    state = torch.state_dict()
    expected = case.outputs(torch, "torch", data)
    work = COUNTERS["torch"](lambda: case.outputs(torch, "torch", data))
    assert np.abs(expected[0]).max() > 0.1
    assert expected[0].std(0).max() > case.spread
    assert all(np.ptp(array) > 0 for array in expected if array.size > 1)
    assert work > 0
    for framework, other in zip(FRAMEWORKS[1:], others, strict=True):
        other.load_state_dict(state)
        for ours, theirs in zip(expected, case.outputs(other, framework, data), strict=True):
            assert ours.shape == theirs.shape
            assert np.abs(ours - theirs).max() < case.within
        if case.same_predictions:
            assert torch.predict(evaluation_data(data)) == other.predict(evaluation_data(data))
        assert COUNTERS[framework](lambda: case.outputs(other, framework, data)) == work  # noqa: B023 (called at once)


@trained
def test_goes_on_from_a_state_as_if_never_stopped(builds, framework):
    cut, end = builds.case.resumed
    ours, (again, _) = builds.trajectory(framework), builds.again(framework)
    assert ours.stats.samples == builds.whole_steps(cut)
    assert not all(np.array_equal(ours.end[name], array) for name, array in floats(ours.cut).items())
    again.load_state_dict(ours.cut)
    assert_same(ours.cut, again.state_dict())
    again.train_until(end)
    assert_same(ours.end, again.state_dict())
    assert ours.predictions == again.predict(evaluation_data(builds.case.data()))


@trained
def test_one_seed_gives_one_trajectory(builds, framework):
    cut, _ = builds.case.resumed
    ours, (again, _) = builds.trajectory(framework), builds.again(framework)
    again.load_state_dict(builds.initial(framework))
    assert ours.stats == again.train_until(cut)
    assert_same(ours.cut, again.state_dict())


@each_trained(CASES, soaked=[case.id for case in CASES])  # for which TensorFlow is traced once more
def test_another_seed_gives_another_trajectory(builds, framework):
    cut, _ = builds.case.resumed
    ours, other = builds.trajectory(framework), builds.fresh(framework, seed=4)
    initial, theirs = builds.initial(framework), other.state_dict()
    assert not all(np.array_equal(theirs[name], array) for name, array in floats(initial).items())
    other.load_state_dict(initial)  # now only what it sees is another
    other.train_until(cut)
    theirs = other.state_dict()
    assert not all(np.array_equal(theirs[name], array) for name, array in floats(ours.cut).items())


@trained_on_data
def test_building_reads_nothing_of_the_training_data(builds, framework):
    """Nor computes anything of it: test_one_seed_gives_one_trajectory trains what was built on blank data."""
    _, reads = builds.again(framework)
    assert reads == []


@slow
@low_precision
@pytest.mark.parametrize(
    ("framework", "precision"),
    [
        ("torch", "bf16"),
        pytest.param("torch", "fp16", marks=soak),
        pytest.param("tensorflow", "bf16", marks=soak),
        pytest.param("tensorflow", "fp16", marks=soak),
    ],
)
def test_low_precision_follows_fp32_and_learns(builds, framework, precision):
    """In fp16 by loss scaling."""
    near = builds.case.until[-1]
    expected = builds.fresh(framework).train_until(near).loss
    implementation = builds.fresh(framework, precision)
    first = implementation.train_until(1).loss
    found = implementation.train_until(near).loss
    assert found != expected
    assert found == pytest.approx(expected, rel=0.02)
    samples, part = builds.case.learned
    assert 0 < implementation.train_until(samples).loss < first * part
    assert all(np.isfinite(array).all() for array in floats(implementation.state_dict()).values())


in_bf16 = pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=soak)])


@slow
@in_bf16
@each([case for case in CASES if case.learned or case.scale == "pilot"])
def test_bf16_predicts_like_fp32(builds, framework):
    predicts_like_fp32(builds, framework)


SMALL = BY_ID["image_classification-small"]
WIDTHS = {"widths": SMALL.benchmark.hyperparameters["widths"]}


@soak
@each_framework
@each([replace(SMALL, changes={**SMALL.changes, **WIDTHS})])
def test_bf16_predicts_like_fp32_in_the_network_of_small(builds, framework):
    predicts_like_fp32(builds, framework)


def predicts_like_fp32(builds, framework):
    """Of the same weights; those of CIFAR-10's network were once chance on one kind of CPU."""
    case, data = builds.case, builds.case.data()
    torch = builds.fresh("torch")
    torch.train_until(case.until[-1])
    state = torch.state_dict()
    expected = case.outputs(torch, "torch", data)
    low = builds.fresh(framework, "bf16")
    low.load_state_dict(state)
    found = case.outputs(low, framework, data)
    assert np.abs(expected[0] - found[0]).mean() < 0.1 * expected[0].std()
    if case.same_predictions:
        pairs = zip(torch.predict(evaluation_data(data)), low.predict(evaluation_data(data)), strict=True)
        assert np.mean([one == other for one, other in pairs]) > 0.5


@slow
@low_precision
@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=soak)])  # whose state is in fp32 too
def test_goes_on_in_bf16_as_if_never_stopped(builds, framework):
    cut, end = builds.case.resumed
    implementation = builds.fresh(framework, "bf16")
    state, _ = goes_on(implementation, cut, end)
    whole = implementation.state_dict()
    assert not all(np.array_equal(whole[name], state[name]) for name in floats(whole))


ON_GPU = [
    (case, precision)
    for case in CASES
    if case.on_gpu
    for precision in ([case.benchmark.precision] if case.benchmark.precision else ["fp32", "bf16", "fp16"])
]


@pytest.mark.gpu
@each_framework
@pytest.mark.parametrize(("case", "precision"), ON_GPU, ids=[f"{case.id}-{precision}" for case, precision in ON_GPU])
def test_trains_on_a_gpu(case, framework, precision):
    benchmark, task = case.benchmark, load_task(case.task)
    data = for_run(benchmark, task, prepared(benchmark, task), 1)
    module = load_implementation(case.task, config.framework(framework))
    implementation = contract.build(module, benchmark, data, 3, Device("gpu", precision))
    samples, least = case.on_gpu
    implementation.train_until(samples)
    quality = task.score(implementation.predict(data), data)[benchmark.metric]
    assert quality > least if benchmark.direction == "higher" else quality <= least


@pytest.mark.skipif(bool(detect().accelerators), reason="this machine has a GPU")
@each_framework
def test_a_framework_that_sees_no_gpu_trains_on_nothing_else(framework):
    benchmark = config.benchmark("recommendation", "mini")
    data = prepared(benchmark, load_task("recommendation"))
    module = load_implementation("recommendation", config.framework(framework))
    with pytest.raises(UserError, match=r"sees no accelerator on this machine: .*; python -m suite\.doctor names"):
        contract.build(module, benchmark, data, 3, Device("gpu", "fp32"))


@slow
def test_no_implementation_in_torch_imports_tensorflow(tmp_path):
    """tests/harness/test_lean.py has the other way."""
    modules = [f"reference_impls.{task}.torch" for task in config.names("task")]
    (tmp_path / "program.py").write_text(f"import sys, {', '.join(modules)}\nprint('tensorflow' in sys.modules)\n")
    done = run(tmp_path, "program")
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
