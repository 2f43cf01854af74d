"""What the levels find, held to what is known of the workload."""

import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from suite import config
from suite.errors import UserError
from suite.harness.implementation import Device, frameworks
from suite.measure.machine import detect
from suite.probe import instruments, levels, perf, record
from suite.probe.__main__ import main
from suite.probe.instruments.torch_counting import number_type
from suite.probe.instruments.torch_watch import Calls, Places
from suite.probe.subject import Subject
from suite.probe.sweeping import sweep
from tests.eighth_task import HERE, lend
from tests.probe import made

FRAMEWORKS = ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)]  # which takes seconds to trace
MODELS = {"torch": "model=mobilenet_v2", "tensorflow": "model=MobileNetV2"}
TASK = ("task=image_classification", "scale=mini")


def look(capsys, level: str, *words: str) -> record.Cell:
    """The only cell of a probe."""
    (cell,) = made.look(capsys, f"level={level}", *words, "precision=fp32", "repeats=2")
    assert cell.error is None
    return cell


def column(cell: record.Cell, name: str) -> dict[str, float]:
    return {row.name: row.values[name] for row in cell.rows}


def test_each_cell_of_a_sweep_is_measured_with_the_arithmetic_of_its_own_build(monkeypatch):
    """On a GPU a build in tf32 lets all products of the process be taken in it, one in fp32 none."""
    measured = set()

    class Measurement:
        def __init__(self, subject):
            self.conditions = subject.conditions
            number_type(subject.device)  # as a build does

        def repeat(self):
            allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
            measured.add((self.conditions.precision, *allowed))

        def found(self):
            return record.Cell(conditions=self.conditions)

    monkeypatch.setattr(levels, "load", lambda name: SimpleNamespace(measurement=Measurement))
    subjects = [
        Subject(record.Conditions(framework="torch", mode="train", precision=each), config.system("cpu"), 1.0)
        for each in ("tf32", "fp32")
    ]
    sweep("throughput", subjects, 2, detect(), lambda said: None)
    assert measured == {("fp32", False, False), ("tf32", True, True)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_phases_add_up_to_the_step(capsys, framework):
    cell = look(capsys, "phases", *TASK, f"framework={framework}")
    shares = column(cell, "share")
    assert sum(shares.values()) + cell.figures["residual"].value == pytest.approx(100)
    assert all(shares[name] > 0 for name in ("data", "forward", "loss", "backward", "update"))
    assert cell.figures["overhead"].value > 0


@pytest.mark.parametrize("level", ["phases", "memory"])
def test_code_of_which_no_layer_is_seen_is_told_so_and_not_taken_for_data(level, monkeypatch):
    lend(monkeypatch)
    words = (f"level={level}", "task=parity", "scale=mini", f"implementation={HERE / 'shared.py'}", "precision=fp32")
    with pytest.raises(UserError, match=r"no torch\.nn\.Module is called in a step"):
        main([*words, "hw=cpu", "repeats=1", "seconds=0.02", "mlflow=false"])


def test_gradients_that_are_asked_for_are_the_backward_phase():
    marks, layer = [], torch.nn.Linear(2, 1)
    with Places(marks.append).followed():
        torch.autograd.grad(layer(torch.ones(1, 2)).sum(), list(layer.parameters()))
    assert marks == ["forward", "loss", "backward", "update"]


def test_a_loss_of_torch_nn_is_the_loss_and_no_layer_of_the_forward_pass():
    marks, layer, loss = [], torch.nn.Linear(2, 1), torch.nn.MSELoss()
    with Places(marks.append).followed():
        loss(layer(torch.ones(1, 2)), torch.ones(1, 1)).backward()
    assert list(dict.fromkeys(marks)) == ["forward", "loss", "backward", "update"]
    assert marks.count("forward") == 1


@pytest.mark.parametrize("reentrant", [False, True])
def test_activations_that_are_made_again_are_of_the_backward_phase(reentrant):
    """Also in the next step, although PyTorch leaves the layer as soon as it has what the gradients need."""
    marks, layer = [], torch.nn.Linear(2, 2)
    with Places(marks.append).followed():
        for _ in range(2):
            made = layer(checkpoint(layer, torch.ones(1, 2, requires_grad=True), use_reentrant=reentrant))
            made.sum().backward()
    assert marks == 2 * ["forward", "loss", "forward", "loss", "backward", "update"]


def test_layers_are_told_where_another_thread_makes_activations_again():
    """As on a GPU, whose backward pass runs in a thread of its own, and PyTorch numbers each thread's nodes anew."""
    net, given, places = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(3))), torch.ones(1, 2), Places()
    with ThreadPoolExecutor(1) as another, places.followed(), Calls(places) as calls:

        def made_again(_):
            another.submit(net, given).result()

        for _ in range(2):
            made = net(given)
            made.register_hook(made_again)
            made.sum().backward()
    layers = [each.layer for each in calls.noted if each.phase == "backward" and each.operator == "aten.mm"]
    assert list(dict.fromkeys(layers)) == ["Sequential.2", "Sequential.1", "Sequential.0"]


def test_a_profiler_that_tells_no_time_is_named(monkeypatch):
    """That of a GPU tells none of a processor's operators, nor of any where CUPTI cannot be had."""
    monkeypatch.setattr("suite.probe.instruments.torch_watch.torch_device", lambda _: torch.device("cuda"))
    with pytest.raises(UserError, match="profiler tells no time of any operator"):
        main(["level=operators", *TASK, "hw=cpu", "precision=fp32", "repeats=1", "seconds=0.02", "mlflow=false"])


@pytest.mark.slow  # imports TensorFlow
def test_time_of_operations_that_run_at_once_is_divided_among_them():
    from suite.probe.instruments.tensorflow_profile import Event, divided

    events = [Event("a", "Mul", 1.0, 4.0), Event("b", "Mul", 3.0, 4.0), Event("c", "Mul", 9.0, 1.0)]
    assert divided(events) == pytest.approx([3.0, 3.0, 1.0])
    assert divided([]) == []


@pytest.mark.slow
def test_kernels_one_after_another_are_one_operation_s():
    from suite.probe.instruments.tensorflow_profile import Event, executions

    kernels = [Event("b", "Mul", 3.0, 1.0), Event("a", "Conv2D", 1.0, 0.5), Event("a", "Conv2D", 2.0, 0.5)]
    kernels.append(Event("a", "Conv2D", 5.0, 1.0))
    made = [("a", 1.0, 1.5), ("b", 3.0, 1.0), ("a", 5.0, 1.0)]
    assert [(each.name, each.start, each.seconds) for each in executions(kernels)] == made


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_layers_bear_the_models_names_parameters_and_operations(capsys, framework):
    cell = look(capsys, "layers", *TASK, f"framework={framework}")
    parameters, flops = column(cell, "parameters"), column(cell, "GFLOP")
    (conv2,) = [name for name in parameters if name.replace("/", ".").endswith("blocks.1.conv2")]
    assert parameters[conv2] == 128 * 128 * 9
    # a 3x3 convolution of 128 channels on 1x1 pixels of 100 images; the gradients by input and by filters
    assert flops[conv2] == pytest.approx(3 * 2 * 100 * 128 * 128 * 9 / 1e9)
    assert column(cell, "forward")[conv2] > 0
    assert column(cell, "backward")[conv2] > 0
    assert sum(column(cell, "share").values()) == pytest.approx(100)


def test_each_parameter_is_counted_once_where_layers_share_a_name_or_weights():
    actor, critic = (torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, size)) for size in (2, 1))
    tied = torch.nn.ModuleDict({"words": torch.nn.Embedding(10, 4), "scores": torch.nn.Linear(4, 10, bias=False)})
    tied.scores.weight = tied.words.weight
    tied.forward = lambda places: tied.scores(tied.words(places))

    def step() -> None:
        actor(torch.ones(3, 4)), critic(torch.ones(3, 4)), tied(torch.arange(3))

    watched = instruments.load("torch").watch(lambda: made.Calls(step), Device("cpu", "fp32"))
    parameters = {name: count for name, count in watched.trace(1).parameters.items() if "." in name}
    of_both = {"Sequential.0": 2 * (4 + 1) * 8, "Sequential.1": (8 + 1) * (2 + 1)}
    assert parameters == {**of_both, "ModuleDict.words": 40, "ModuleDict.scores": 0}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_operators_tell_their_shapes_and_operations(capsys, framework):
    cell = look(capsys, "operators", *TASK, f"framework={framework}")
    kind = {"torch": "aten.mm 100x128 128x10", "tensorflow": "MatMul 100x128 128x10"}[framework]
    (row,) = [row for row in cell.rows if row.name.startswith(kind)]
    assert row.values["GFLOP"] == pytest.approx(2 * 100 * 128 * 10 / 1e9)
    assert row.values["calls"] == 1
    assert cell.figures["calls/step"].value > 100


def test_what_is_not_read_or_written_is_not_moved(capsys):
    """One number of 500 for each of 1,048 items, as many as go together; zeros, filled from elsewhere."""
    megabytes = {
        "aten.gather 1048x500 1048x1": 1048 * (4 + 8 + 4) / 1e6,
        "aten.new_zeros 25x50x500": 25 * 50 * 500 * 4 / 1e6,
        "aten.copy_ 25x50x500 25x50x500": 2 * 25 * 50 * 500 * 4 / 1e6,
        "aten._unsafe_view 25x50x50": 0,
    }
    found = column(look(capsys, "operators", "task=recommendation", "scale=mini", "framework=torch"), "MB")
    assert {name: found.get(name) for name in megabytes} == pytest.approx(megabytes)


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.soak)])
@pytest.mark.parametrize("level", ["layers", pytest.param("operators", marks=pytest.mark.soak)])
def test_inference_of_a_model_is_looked_at_too(capsys, framework, level):
    words = (MODELS[framework], f"framework={framework}", "size=32", "batch=2", "mode=infer")
    cell = look(capsys, level, *words)
    assert len(cell.rows) > 10
    counted = look(capsys, "flops", *words).figures["MFLOP/sample"].value * 2 / 1e3
    assert sum(each or 0 for each in column(cell, "GFLOP").values()) == pytest.approx(counted)
    if level == "layers":
        assert column(cell, "backward") == dict.fromkeys(column(cell, "backward"), 0)


def test_counters_are_told_or_why_there_are_none(capsys):
    cell = look(capsys, "counters", *TASK)
    values, why = column(cell, "a step"), column(cell, "why")
    assert values["CPU time, user"] > 0
    assert values.keys() >= perf.EVENTS.keys()
    assert all((values[name] is None) == why[name].startswith("unavailable: ") for name in values)
    assert cell.figures["busy CPUs"].value > 0


def test_a_counter_that_ran_backwards_tells_nothing(capsys, monkeypatch):
    joules = iter(range(1000, 0, -1))
    monkeypatch.setattr("suite.probe.counters.Counters.joules", lambda _: (None, next(joules), None))
    (row,) = [each for each in look(capsys, "counters", *TASK).rows if each.name == "energy, CPU packages"]
    assert (row.values["a step"], row.values["why"]) == (None, "unavailable: it ran backwards")


def test_no_interval_of_a_counter_goes_below_nothing(capsys, monkeypatch):
    monkeypatch.setattr("suite.probe.measuring.interval", lambda values: (-1.0, 3.0))
    lows = column(look(capsys, "counters", *TASK), "from").values()
    assert {each for each in lows if each is not None} == {0.0}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_trace_nests_run_step_phase_layer_and_operator(capsys, framework, tmp_path):
    cell = look(capsys, "trace", *TASK, f"framework={framework}", f"out={tmp_path}")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [each for each in events if each.get("ph") == "X" and "ts" in each]

    def of(*names: str) -> list[tuple[float, float]]:
        return [(it["ts"], it["ts"] + it["dur"]) for it in spans if it["name"].startswith(names)]

    ((begin, end),) = of("run")
    steps = of("step ")
    assert len(steps) == cell.figures["steps"].value
    product = of("aten::convolution", "Conv2D ")
    nested = (steps, [(begin, end)]), (of("phase "), steps), (of("layer "), of("phase ")), (product, steps)
    for inner, outer in nested:
        assert inner
        assert all(any(a <= first + 1 and last <= b + 1 for a, b in outer) for first, last in inner)  # microseconds
    assert {f"phase {name}" for name in ("data", "forward", "loss", "backward", "update")} <= {
        each["name"] for each in spans
    }
    assert any(each["name"].endswith("blocks.1.conv2") and each["name"].startswith("layer ") for each in spans)
    assert column(cell, "spans")["operator"] > 100


def test_a_trace_needs_a_file():
    with pytest.raises(UserError, match="give trace=FILE, or out=FOLDER"):
        main(["level=trace", *TASK])


def test_phases_are_those_of_training():
    with pytest.raises(UserError, match="looks at training steps"):
        main(["level=phases", *TASK, "mode=infer"])


LEVELS = ("throughput", "phases", "operators", "layers", "flops")
OTHERS = [task for task in config.names("task") if task != "image_classification"]  # at which the tests above look
LOOKED_AT = [
    *((task, "torch") for task in OTHERS),
    *(pytest.param(task, "tensorflow", marks=pytest.mark.soak) for task in OTHERS if "tensorflow" in frameworks(task)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "framework"), LOOKED_AT)
def test_every_task_can_be_looked_at(capsys, task, framework):
    """At one level each, another in the other framework: together they would take ten minutes."""
    level = LEVELS[(config.names("task").index(task) + 2 * (framework == "torch")) % len(LEVELS)]
    cell = look(capsys, level, f"task={task}", "scale=mini", f"framework={framework}")
    assert cell.figures
    json.dumps(cell.model_dump(), allow_nan=False)
