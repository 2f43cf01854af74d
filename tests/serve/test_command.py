"""`python -m suite.serve`, as its user types it, in this process."""

import json
import re
import shutil
import threading

import numpy as np
import pytest

from suite import config
from suite.errors import BrokenContract, UserError
from suite.harness import contract
from suite.harness.contestant import read
from suite.harness.seeds import evaluation_seed
from suite.probe.showing import number
from suite.record import evidence, mllog
from suite.serve.__main__ import main, place
from suite.serve.model import Model, examples
from suite.serve.options import parse
from suite.store.task import load_task
from tests.command import refuses, run
from tests.serve.conftest import OURS, asked

pytest.importorskip("mlperf_loadgen")


def test_the_examples_are_those_that_the_run_drew(trained, monkeypatch):
    task, seed = load_task("image_classification"), evaluation_seed(mllog.read(trained / evidence.LOG))
    monkeypatch.setattr(task, "evaluation_arrays", lambda data, seed: {"test_seed": np.array([seed])}, raising=False)
    assert examples(trained, read(OURS, None), None).data["test_seed"] == seed


@pytest.mark.parametrize(
    ("url", "said"), [("localhost:9", "write url=http://HOST:PORT"), ("http://127.0.0.1:9", "nobody answers there")]
)
def test_an_address_without_a_server_says_what_to_do(trained, url, said):
    with pytest.raises(UserError, match=said):
        main([str(trained), f"implementation={OURS}", f"url={url}"])


def test_one_thread_builds_the_model_and_asks_it(trained, capsys, monkeypatch):
    """PyTorch records no CUDA graph in another thread than the one in which it began to: its assertion fails."""
    threads = set()
    build, predict = contract.build, contract.Checked.predict

    def building(*given):
        threads.add(threading.get_ident())
        return build(*given)

    def predicting(*given):
        threads.add(threading.get_ident())
        return predict(*given)

    monkeypatch.setattr(contract, "build", building)
    monkeypatch.setattr(contract.Checked, "predict", predicting)
    assert asked(capsys, str(trained), "scenario=single-stream", "seconds=0.1")["quality"] > 0.5
    assert len(threads) == 1


def test_a_load_that_failed_is_exit_code_1(trained, capsys, monkeypatch):
    from suite.serve import measuring  # which needs LoadGen

    measure = measuring.measure

    def failing(*given):
        found = measure(*given)
        return found.model_copy(update={"loads": [each.model_copy(update={"failed": 1}) for each in found.loads]})

    monkeypatch.setattr(measuring, "measure", failing)
    words = ("scenario=multi-stream", "seconds=0.1", "wait=0", "--json")
    assert main([str(trained), f"implementation={OURS}", *words]) == 1
    (load,) = json.loads(capsys.readouterr().out)["loads"]
    assert (load["scenario"], load["failed"]) == ("multi-stream", 1)


def test_loads_that_ended_are_shown_though_a_later_one_cannot_be_made(trained, capsys, monkeypatch, tmp_path):
    from suite.serve import measuring  # which needs LoadGen

    load = measuring.load

    def without_room(scenario, *given):
        if scenario == "offline":
            raise UserError("no room")
        return load(scenario, *given)

    monkeypatch.setattr(measuring, "load", without_room)
    words = ("scenario=multi-stream,offline", "seconds=0.01", "wait=0", "--html", str(tmp_path / "page.html"))
    with pytest.raises(UserError, match="no room"):
        main([str(trained), f"implementation={OURS}", *words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {load["scenario"] for load in found["loads"]} == {"multi-stream"}
    assert "not all loads were put on: no room" in (tmp_path / "page.html").read_text()


@pytest.fixture
def failing(trained, monkeypatch):
    """Lets the model raise an error for each batch with one certain image, or if None return too few predictions."""
    image, build = examples(trained, read(OURS, None), None).data["test_images"][7], contract.build

    def fail(error: BaseException | None) -> None:
        def building(*given):
            made = build(*given)
            predict = made.inner.predict

            def predicting(data):
                if not any(np.array_equal(each, image) for each in data["test_images"]):
                    return predict(data)
                if error is None:
                    return predict(data)[1:]
                raise error

            made.inner.predict = predicting
            return made

        monkeypatch.setattr(contract, "build", building)

    monkeypatch.setattr(Model, "warm_up", lambda model: None)
    return fail


@pytest.mark.parametrize("error", [ValueError("no <such> digit"), MemoryError(), FileNotFoundError("lost")])
def test_an_example_that_cannot_be_answered_leaves_the_quality_unknown_and_the_loads_are_put_on(
    trained, capsys, failing, error
):
    failing(error)
    assert main([str(trained), f"implementation={OURS}", "scenario=offline", "seconds=0.1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["quality"] is None
    assert re.fullmatch(r"1 of [\d,]+ requests failed, the first with .*", found["unscored"])
    assert str(error) in found["unscored"]
    (load,) = found["loads"]
    assert load["failed"] >= 1
    assert load["problems"] == [f"{load['failed']} of its samples failed"]


@pytest.mark.parametrize(
    ("error", "said"), [(SystemExit(0), "called sys.exit"), (None, "returned 0 predictions for 1 examples")]
)
def test_an_example_for_which_the_contract_is_broken_ends_it_in_a_line(trained, failing, error, said):
    failing(error)
    with pytest.raises(BrokenContract, match=said):
        main([str(trained), f"implementation={OURS}", "scenario=offline", "seconds=0.1"])


def test_the_highest_rate_lies_between_one_that_keeps_the_bound_and_one_that_does_not(trained, capsys, tmp_path):
    page = tmp_path / "page.html"
    bound = ("scenario=server,offline", "latency=1", "seconds=0.2", "--html", str(page))
    found = asked(capsys, str(trained), *bound)
    served = {load["rate"]: load for load in found["loads"] if load["scenario"] == "server"}
    assert served[found["too_high"]]["problems"]
    if found["highest"] is not None:  # a busy machine may keep no bound
        assert served[found["highest"]]["problems"] == []
        assert found["highest"] < found["too_high"]
    remark = "no rate keeps" if found["highest"] is None else f"{number(found['highest'])}/s keeps"
    assert remark in page.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give one FOLDER"),
        (("nowhere",), "nowhere holds no run: give the out= folder of a run"),
        (("nowhere", "scenario=servr"), "did you mean 'server'?"),
        (("nowhere", "rate=5", "scenario=offline"), "rate=5 is of scenario=server"),
        (("nowhere", "rate=1e6", "seconds=20"), "seconds=20 at 1,000,000 queries a second is 20,000,000 queries"),
        (("nowhere", "seconds=1e5"), "at most 10,000,000 fit a load: give a lower rate= or fewer seconds="),
        (("nowhere", "batch=0"), "batch=0 is not a whole number"),
        (("nowhere", "batch=64", "queue=20"), "batch=64 never fills: at most queue=20 requests wait"),
        (("nowhere", "latency=nan"), "latency=nan is not a number above 0, in seconds"),
        (("nowhere", "listen=99999"), "listen=99999 is no port"),
        (("nowhere", "listen=80", "url=http://a"), "leave out url"),
        (("nowhere", "listen=80", "--json"), "leave out --json and --html"),
        (("nowhere", "btach=3"), "did you mean 'batch'?"),
    ],
)
def test_a_mistake_is_one_line(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuses(main, words, said)


@pytest.mark.parametrize(
    ("given", "batch", "queue"), [({}, 32, 256), ({"batch": "1024"}, 1024, 2048), ({"queue": "20"}, 20, 20)]
)
def test_of_batch_and_queue_the_one_that_is_not_given_fits_the_other(given, batch, queue):
    wanted = parse(given)
    assert (wanted.batch, wanted.queue) == (batch, queue)


def test_of_several_accelerators_one_is_named():
    names = [place(config.system(name)) for name in ("h100x8", "cpu")]
    assert names == ["one accelerator of h100x8", "cpu"]


def test_a_precision_that_the_code_does_not_know_is_one_line(trained):
    with pytest.raises(UserError, match="precision=fp16: alike trains in fp32, bf16"):
        main([str(trained), f"implementation={OURS}", "precision=fp16"])


def test_code_that_imports_more_than_its_framework_is_read_in_that_of_its_run(tmp_path):
    shutil.copytree(OURS, tmp_path / "ours")
    with (tmp_path / "ours/__init__.py").open("a") as code:
        code.write("\n\ndef drawn():\n    import torch\n    import jax\n")
    words = ("task=image_classification", "scale=mini", "hw=cpu", "implementation=ours", "framework=numpy")
    kept = ("checkpoints=keep", "division=open", "budget_samples=4000", "mlflow=false", "out=kept")
    done = run(tmp_path, "suite.run", *words, *kept)
    assert (tmp_path / "kept/states").exists(), done.stdout + done.stderr
    with pytest.raises(UserError, match="precision=fp16: ours trains in fp32, bf16"):
        main([str(tmp_path / "kept"), f"implementation={tmp_path / 'ours'}", "precision=fp16"])


def test_a_task_that_cannot_be_asked_for_one_example_says_so(tmp_path):
    words = (
        "task=recommendation",
        "scale=mini",
        "hw=cpu",
        "division=open",
        "evaluation.first=100",
        "budget_samples=100",
    )
    run(tmp_path, "suite.run", *words, "mlflow=false", "out=kept")
    done = run(tmp_path, "suite.serve", "kept")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "no tasks/recommendation/requests.py" in done.stderr
