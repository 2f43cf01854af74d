"""Several workers in TensorFlow: tf.distribute, and batch norm over the whole batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.tensorflow_shared import gpus
from suite.harness.implementation import Device

GATHERED = ("float32", "int32", "int64")  # types that travel as they are


class Workers:
    """The workers of a run, seen from the worker of `device`; the first instance in a process joins the others.

    Make it before anything else of TensorFlow. Variables are ordinary ones, with the same values on all workers.
    """

    def __init__(self, device: Device) -> None:
        self.size = device.world_size
        self.strategy = _strategy(device) if self.size > 1 else None
        self._gathered = tf.function(self._gather, autograph=False)

    def averaged(self, gradients: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        """The gradients, averaged over the workers."""
        if self.size == 1:
            return gradients
        summed = self._run(_sum, [tf.convert_to_tensor(gradient) for gradient in gradients])
        return [gradient / self.size for gradient in summed]

    def mean(self, count: tf.Tensor) -> tf.Tensor:
        """The mean of `count` over the workers, float32; a total of zero is taken for one.

        See `torch_workers.Workers.mean`.
        """
        count = tf.cast(count, tf.float32)
        if self.size > 1:
            (count,) = self._run(_sum, [count])
        return tf.maximum(count, 1.0) / self.size

    def total(self, part: tf.Tensor) -> tf.Tensor:
        """The sum of the workers' parts, whose gradient is summed over the workers too."""

        def sum_and_gradient(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            return self._run(_sum, [x])[0], lambda gradient: self._run(_sum, [gradient])[0]

        total: tf.Tensor = tf.custom_gradient(sum_and_gradient)(part)
        return total

    def gathered(self, part: np.ndarray, axis: int = 0) -> np.ndarray:
        """The parts of all workers, as `shares.share` made them, concatenated along `axis`."""
        if self.size == 1:
            return part
        sent = part if part.dtype in GATHERED else part.astype(np.int32)
        any_length = tf.TensorSpec((None,) * sent.ndim, sent.dtype)  # traced once
        gather = self._gathered.get_concrete_function(any_length, axis)
        together: np.ndarray = gather(tf.constant(sent)).numpy().astype(part.dtype)
        return together

    def _gather(self, part: tf.Tensor, axis: int) -> tf.Tensor:
        return self._run(lambda x: tf.distribute.get_replica_context().all_gather(tf.identity(x), axis), part)

    def _run(self, function: Callable[..., Any], value: Any) -> Any:
        assert self.strategy
        return self.strategy.run(function, (value,))


def batch_norm(
    x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, epsilon: float, workers: Workers
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Normalise `x` [B, h, w, C] over the batch of all workers, as tf.raw_ops.FusedBatchNormV3 does for one worker.

    Returns the scaled and shifted output, the mean [C] and the unbiased variance [C].
    """
    wide = tf.cast(x, tf.float32)
    count = tf.cast(tf.size(wide) // wide.shape[-1], tf.float32)
    summed = workers.total(tf.concat([tf.reduce_sum(wide, (0, 1, 2)), [count]], 0))
    samples = tf.stop_gradient(summed[-1])
    mean = summed[:-1] / samples
    centred = wide - mean
    variance = workers.total(tf.reduce_sum(tf.square(centred), (0, 1, 2))) / samples
    y = centred * (tf.math.rsqrt(variance + epsilon) * scale) + offset
    return tf.cast(y, x.dtype), mean, variance * samples / (samples - 1)


def _past_proxies(addresses: Sequence[str]) -> None:
    """Have gRPC bypass a configured proxy to reach the workers; through the proxy it would wait forever."""
    hosts = [address.rpartition(":")[0].strip("[]") for address in addresses]
    for name in ("no_proxy", "no_grpc_proxy"):  # where the second is set, gRPC reads it alone
        if name == "no_proxy" or name in os.environ:
            named = os.environ.get(name) or os.environ.get(name.upper())
            os.environ[name] = ",".join(dict.fromkeys([*(named.split(",") if named else ()), *hosts]))


@cache
def _strategy(device: Device) -> tf.distribute.Strategy:
    implementation = tf.distribute.experimental.CommunicationImplementation
    # Of a machine whose processors train, TensorFlow would take the GPUs' whole memory in each worker
    tf.config.set_visible_devices(gpus()[device.local_rank] if device.kind == "gpu" else [], "GPU")
    _past_proxies(device.addresses)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(device.addresses)}),
        task_type="worker",
        task_id=device.rank,
        num_accelerators={"GPU": 1} if device.kind == "gpu" else {},  # none is found by itself
        rpc_layer="grpc",
    )
    sending = tf.distribute.experimental.CommunicationOptions(
        implementation=implementation.NCCL if device.kind == "gpu" else implementation.RING
    )
    return tf.distribute.MultiWorkerMirroredStrategy(resolver, sending)


def _sum(tensors: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
    """Sum each tensor over the workers; tf.identity puts it on the worker's device, from which it is sent."""
    context = tf.distribute.get_replica_context()
    summed: Sequence[tf.Tensor] = context.all_reduce(
        tf.distribute.ReduceOp.SUM, [tf.identity(each) for each in tensors]
    )
    return summed
