"""What the workers in TensorFlow tell it of themselves."""

from importlib import import_module

import pytest

from suite.harness.implementation import Device


@pytest.mark.parametrize(("kind", "chosen"), [("gpu", "second"), ("cpu", [])])
def test_workers_send_from_the_device_that_they_train_on(kind, chosen, monkeypatch):
    tf = pytest.importorskip("tensorflow")
    extended = import_module("tensorflow.python.distribute.collective_all_reduce_strategy").CollectiveAllReduceExtended
    workers = import_module("reference_impls.tensorflow_workers")
    visible, resolvers = [], []
    monkeypatch.setattr(workers, "gpus", lambda: ["first", "second"])
    monkeypatch.setattr(workers, "_strategy", workers._strategy.__wrapped__)  # without its cache
    monkeypatch.setattr(workers, "_past_proxies", lambda _: None)
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda device, _: visible.append(device))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", lambda resolver, _: resolvers.append(resolver))
    workers.Workers(Device(kind, "fp32", rank=1, local_rank=1, addresses=("a:1", "a:2")))
    sending, _ = extended._initialize_local_devices(None, resolvers[0], "/job:worker/task:1")
    assert (visible, sending) == ([chosen], (f"/job:worker/task:1/device:{kind.upper()}:0",))
