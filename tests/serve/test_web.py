"""The server of a model, and the client that asks it."""

import os
import socket
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import requests
import uvicorn

from suite.errors import BrokenContract, UserError
from suite.serve.batching import Batcher
from suite.serve.options import parse
from suite.serve.web import Client, app, bound, here
from suite.store.task import Task

ADDRESSES = Path("/proc/net/if_inet6")
IMAGE = {"test_images": np.zeros((1, 8, 8, 1), np.uint8)}


@pytest.fixture
def failing(request):
    """Examples, and the address of a server of them whose model fails; where it ends nobody answers."""

    def answers(requests):
        raise request.param

    plan = SimpleNamespace(benchmark=SimpleNamespace(name="task/mini"))
    examples = SimpleNamespace(plan=plan, request=lambda index: IMAGE, checked=lambda asked: asked)
    server = uvicorn.Server(uvicorn.Config(app(examples, Batcher(lambda: answers, 1, 0.0, 9)), log_level="critical"))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()

    def end():
        server.should_exit = True
        thread.join()

    yield examples, f"http://127.0.0.1:{listening.getsockname()[1]}", end
    end()


@pytest.mark.parametrize(
    ("failing", "said"),
    [(RuntimeError("out of memory"), "RuntimeError: out of memory"), (BrokenContract("it exits", Task), "it exits")],
    indirect=["failing"],
    ids=["fails", "breaks its contract"],
)
def test_a_server_whose_model_fails_is_told_from_one_that_is_gone(failing, said):
    examples, url, end = failing
    with closing(Client(url, examples)) as client:
        with pytest.raises(UserError, match=f"url={url} answers 500: .*{said}"):
            client.submit(0).result(60)
        end()
        with pytest.raises(UserError, match=f"url={url} does not answer: "):
            client.submit(0).result(60)


@pytest.mark.parametrize("body", [b"hello", b"[]", b"{}"])
def test_an_answer_without_a_prediction_is_one_line(failing, monkeypatch, body):
    examples, url, _ = failing
    answer = requests.Response()
    answer.status_code, answer._content = 200, body
    monkeypatch.setattr(requests.Session, "post", lambda *_, **__: answer)
    with closing(Client(url, examples)) as client, pytest.raises(UserError, match=f"url={url} answers .*; expected "):
        client.submit(0).result(60)


@pytest.mark.parametrize(("later", "found"), [(0.0, (os.getpid(),)), (60.0, ())], ids=["here", "elsewhere"])
def test_a_server_is_on_this_machine_where_its_process_began_here(later, found):
    began = psutil.Process().create_time() + later
    assert here({"pid": os.getpid(), "began": began}) == found


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_a_host_that_is_not_this_machine_is_one_line(host):
    with pytest.raises(UserError, match=f"{host} is no address of this machine"):
        bound(host, 0)


@pytest.mark.skipif(not (ADDRESSES.exists() and ADDRESSES.read_text()), reason="no IPv6")
@pytest.mark.parametrize("text", ["[::1]:0", "::1:0"])
def test_an_address_of_ipv6_may_be_listened_at(text):
    with bound(*parse({"listen": text}).listen) as made:
        assert made.getsockname()[0] == "::1"
