"""The server of a model, and the client that asks it."""

import os
import signal
import socket
import subprocess
import sys
import threading
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
from suite.serve.web import TIMEOUT_S, Client, app, bound, here
from suite.store.task import Task

ADDRESSES = Path("/proc/net/if_inet6")
CLIENT = """
from types import SimpleNamespace
from suite.errors import command
from suite.serve.web import Client

examples = SimpleNamespace(plan=SimpleNamespace(benchmark=SimpleNamespace(name="task/mini")), request=lambda index: {})
command(lambda _: Client("http://127.0.0.1:PORT", examples).submit(0).result())
"""
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
    client = Client(url, examples)
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
    with pytest.raises(UserError, match=f"url={url} answers .*; expected "):
        Client(url, examples).submit(0).result(60)


def test_ctrl_c_ends_a_client_whose_server_does_not_answer():
    told = b'{"benchmark": "task/mini"}'
    with socket.create_server(("127.0.0.1", 0)) as listening:
        code = CLIENT.replace("PORT", str(listening.getsockname()[1]))
        client = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        with listening.accept()[0] as health:
            health.recv(1000)
            health.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(told), told))
            with listening.accept()[0] as asked:
                asked.recv(1000)
                client.send_signal(signal.SIGINT)
                _, errors = client.communicate(timeout=TIMEOUT_S / 2)
    assert (client.returncode, errors) == (128 + signal.SIGINT, "")


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
