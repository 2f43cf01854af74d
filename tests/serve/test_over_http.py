"""`python -m suite.serve` over HTTP, as its user types it: a server, and loads that ask it."""

import io
import signal
import socket
from types import SimpleNamespace

import numpy as np
import pytest
import requests

from suite.errors import UserError
from suite.measure.noise import Environment
from suite.serve.__main__ import main
from suite.serve.web import MAX_BYTES, Client
from tests.command import start
from tests.serve.conftest import LOAD, OURS, asked

pytest.importorskip("mlperf_loadgen")


@pytest.fixture(scope="module")
def server(trained):
    """The address of a server of that run; it ends as Ctrl-C ends it."""
    process = start(trained, "suite.serve", str(trained), f"implementation={OURS}", "listen=0", "queue=20")
    told = process.stdout.readline()
    yield told.split()[0]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, errors
    assert "Traceback" not in errors


def test_served_answers_have_the_quality_that_the_run_logged(trained, server, capsys, monkeypatch):
    ours = []
    quiet = Environment(("somebody worked",), {})
    monkeypatch.setattr("suite.measure.noise.before", lambda machine, workers: ours.append(workers) or quiet)
    for more, where in (((), "in this process"), ((f"url={server}",), f"over {server}")):
        found = asked(capsys, str(trained), *LOAD, *more)
        assert found["where"].endswith(where)
        assert found["noisy"][0] == "somebody worked"
        assert found["quality"] == found["trained"] > 0.5
        assert [load["scenario"] for load in found["loads"]] == ["single-stream", "server"]
        for load in found["loads"]:
            assert load["queries"] >= 64
            if not load["shed"]:
                assert 0 < load["latencies"]["50"] <= load["latencies"]["99"]
            assert load["failed"] == 0
    assert ours == [(), (requests.get(f"{server}/health", timeout=60).json()["pid"],)]


def packed(**arrays) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def test_what_is_no_request_is_said_in_a_line_and_the_server_goes_on(server):
    bomb = packed(test_images=np.zeros((2 * MAX_BYTES, 1), np.uint8))
    assert len(bomb) < MAX_BYTES
    for body, code, text in (
        (b"junk", 400, "no .npz"),
        (bomb, 400, "arrays of more than"),
        (bytes(MAX_BYTES + 1), 413, "more than"),
        (packed(test_images=np.array([{}])), 400, "no .npz of plain arrays"),
        (packed(test_images=np.zeros((1, 9, 8, 1), np.uint8)), 400, "expected uint8 [N, 8, 8, 1]"),
        (packed(test_images=np.zeros((0, 8, 8, 1), np.uint8)), 400, "not of one example"),
        (packed(other=np.zeros(1)), 400, "expected test_images"),
    ):
        answer = requests.post(f"{server}/predict", data=body, timeout=60)
        assert (answer.status_code, text in answer.json()["error"]) == (code, True), answer.text
    good = packed(test_images=np.zeros((1, 8, 8, 1), np.uint8))
    assert requests.post(f"{server}/predict", data=good, timeout=60).json().keys() == {"prediction"}
    assert requests.get(f"{server}/health", timeout=60).json()["benchmark"] == "image_classification/mini"


def test_a_client_that_goes_away_is_no_error(server):
    host, port = server.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
    assert requests.get(f"{server}/health", timeout=60).ok  # the fixture looks at what the server said of it


def test_a_port_that_is_taken_is_found_before_a_model_is_built(trained, server, monkeypatch):
    monkeypatch.setattr("suite.serve.__main__.load", lambda *given: pytest.fail("built"))
    with pytest.raises(UserError, match="give another port"):
        main([str(trained), f"implementation={OURS}", f"listen={server.rpartition(':')[2]}"])


def test_a_load_asks_its_server_and_no_proxy(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name)
    plan = SimpleNamespace(benchmark=SimpleNamespace(name="image_classification/mini"))
    images = {"test_images": np.zeros((1, 8, 8, 1), np.uint8)}
    client = Client(server, SimpleNamespace(plan=plan, request=lambda index: images))
    assert client.submit(0).result(60) in range(10)


def test_a_server_ends_though_a_client_says_no_more(trained, tmp_path):
    process = start(tmp_path, "suite.serve", str(trained), f"implementation={OURS}", "listen=0")
    host, port = process.stdout.readline().split()[0].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
        assert requests.get(f"http://{host}:{port}/health", timeout=60).ok
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in errors
