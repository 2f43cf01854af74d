"""Optimizers and loss scaling in TensorFlow where Keras's do not do what PyTorch's do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from reference_impls.recipe import NEWTON_SCHULZ

Apply = Callable[[Sequence[tf.Tensor]], None]


class AdamW(keras.optimizers.AdamW):
    """Keras's AdamW with PyTorch's epsilon, which is added after the bias correction.

    Keras adds it before ("epsilon hat" of Kingma and Ba 2015), which makes it 30 times as large in the first step.
    Keras also writes each variable once more even where there is no weight decay.
    """

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        if self.weight_decay:
            super()._apply_weight_decay(variables)

    def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: tf.Tensor) -> None:
        """One step of one variable."""
        index = self._get_variable_index(variable)
        mean, square = self._momentums[index], self._velocities[index]
        step = tf.cast(self.iterations + 1, tf.float32)
        mean.assign_add((1 - self.beta_1) * (gradient - mean))
        square.assign_add((1 - self.beta_2) * (tf.square(gradient) - square))
        deviation = tf.sqrt(square / (1 - self.beta_2**step)) + self.epsilon
        variable.assign_sub(learning_rate / (1 - self.beta_1**step) * mean / deviation)

    def moments(self) -> dict[str, Any]:
        """The optimizer's state, by PyTorch's names."""
        paths = [variable.path for variable in self._trainable_variables]
        return {
            **{f"exp_avg/{path}": value for path, value in zip(paths, self._momentums, strict=True)},
            **{f"exp_avg_sq/{path}": value for path, value in zip(paths, self._velocities, strict=True)},
            "updates": self.iterations,
        }


def clipped(gradients: Sequence[tf.Tensor], norm: float) -> list[tf.Tensor]:
    """The gradients, scaled down to a global norm of at most `norm`, as torch.nn.utils.clip_grad_norm_ does."""
    shorter = tf.minimum(norm / (tf.linalg.global_norm(gradients) + 1e-6), 1.0)
    return [gradient * shorter for gradient in gradients]


class Momentum:
    """Momentum buffers of some variables, as PyTorch's optimizers keep them."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self.variables = list(variables)
        self.buffers = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in self.variables]

    def moments(self) -> dict[str, Any]:
        """The optimizer's state, by PyTorch's names."""
        return {f"momentum_buffer/{v.path}": b for v, b in zip(self.variables, self.buffers, strict=True)}


class SGD(Momentum):
    """SGD with Nesterov momentum (Sutskever et al. 2013) as in torch.optim.SGD: momentum sums gradients, not steps.

    Keras's momentum includes the learning rate, so a change of the rate takes effect late.
    """

    def __init__(self, variables: Sequence[Any], momentum: float, weight_decay: float) -> None:
        super().__init__(variables)
        self.momentum, self.weight_decay = momentum, weight_decay

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """One step along the gradients of the variables."""
        for variable, buffer, gradient in zip(self.variables, self.buffers, gradients, strict=True):
            decayed = gradient + self.weight_decay * variable
            buffer.assign(self.momentum * buffer + decayed)
            variable.assign_sub(learning_rate * (decayed + self.momentum * buffer))


class LARS(Momentum):
    """The twin of `torch_lars.LARS`."""

    def __init__(self, variables: Sequence[Any], momentum: float, weight_decay: float, trust: float) -> None:
        super().__init__(variables)
        self.momentum, self.weight_decay, self.trust = momentum, weight_decay, trust

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """One step along the gradients of the variables."""
        for variable, buffer, gradient in zip(self.variables, self.buffers, gradients, strict=True):
            if variable.shape.rank > 1:
                weight, slope = tf.norm(variable), tf.norm(gradient)
                trust = self.trust * weight / (slope + self.weight_decay * weight)
                trust = tf.where((weight > 0) & (slope > 0), trust, 1.0)
                gradient = trust * (gradient + self.weight_decay * variable)
            buffer.assign(self.momentum * buffer + learning_rate * gradient)
            variable.assign_sub(buffer)


class Muon(Momentum):
    """The twin of `torch_muon.Muon`. Keras's lacks the factor sqrt(max(1, out / in)), stacks, convolutions, and bf16.

    Variables whose path ends with `kernel` are [in, out] or [h, w, in, out]; others [out, in] or [n, out, in].
    """

    def __init__(
        self,
        variables: Sequence[Any],
        momentum: float,
        ns_steps: int,
        dtype: tf.DType,
        weight_decay: float = 0.0,
        unit_norm: bool = False,
    ) -> None:
        super().__init__(variables)
        self.momentum, self.ns_steps, self.dtype = momentum, ns_steps, dtype
        self.weight_decay, self.unit_norm = weight_decay, unit_norm

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """One step along the gradients of the variables."""
        directions = []
        for variable, buffer, gradient in zip(self.variables, self.buffers, gradients, strict=True):
            buffer.assign_add((1 - self.momentum) * (gradient - buffer))
            directions.append(gradient + self.momentum * (buffer - gradient))
            scale = 1 - learning_rate * self.weight_decay
            if self.unit_norm:
                outputs = variable.shape[-1] if variable.path.endswith("/kernel") else variable.shape[0]
                scale *= outputs**0.5 / tf.norm(variable)
            if self.unit_norm or self.weight_decay:
                variable.assign(variable * scale)
        for variable, step in zip(self.variables, self._orthogonalised(directions), strict=True):
            variable.assign_sub(learning_rate * step)

    def _orthogonalised(self, directions: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """`directions` made roughly semi-orthogonal, times sqrt(max(1, out / in)); shapes stay the same."""
        a, b, c = NEWTON_SCHULZ
        kernels = [variable.path.endswith("/kernel") for variable in self.variables]
        # [in * h * w, out] of a kernel, [n, out, in] of others
        flat = [
            tf.reshape(d, (1, -1, d.shape[-1]) if kernel else (-1, *d.shape[-2:]))
            for d, kernel in zip(directions, kernels, strict=True)
        ]
        wide = [tf.linalg.matrix_transpose(m) if m.shape[1] > m.shape[2] else m for m in flat]
        result: dict[int, tf.Tensor] = {}
        by_shape = sorted(range(len(wide)), key=lambda i: tuple(wide[i].shape[1:]))
        for _, group in groupby(by_shape, key=lambda i: tuple(wide[i].shape[1:])):
            members = list(group)
            x = tf.concat([wide[i] for i in members], 0)
            x = tf.cast(x / (tf.norm(x, axis=(1, 2), keepdims=True) + 1e-7), self.dtype)
            for _ in range(self.ns_steps):
                gram = tf.matmul(x, x, transpose_b=True)  # in bf16 the factors themselves would be rounded
                square = tf.cast(tf.matmul(gram, gram), tf.float32)
                inner = tf.cast(b * tf.cast(gram, tf.float32) + c * square, self.dtype)
                x = tf.cast(a * tf.cast(x, tf.float32) + tf.cast(tf.matmul(inner, x), tf.float32), self.dtype)
            parts = tf.split(tf.cast(x, tf.float32), [wide[i].shape[0] for i in members])
            for i, part in zip(members, parts, strict=True):
                first, second = flat[i].shape[1:]
                outputs, inputs = (second, first) if kernels[i] else (first, second)
                part = tf.linalg.matrix_transpose(part) if first > second else part
                result[i] = tf.reshape(part * max(1, outputs / inputs) ** 0.5, directions[i].shape)
        return [result[i] for i in range(len(directions))]


class GradScaler:
    """torch.amp.GradScaler's twin: a step whose gradients overflow in fp16 is skipped, and the scale halved."""

    GROWTH_INTERVAL = 2000

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._scale = tf.Variable(2.0**10, trainable=False)
        self._tracker = tf.Variable(tf.constant(0, tf.int64), trainable=False)  # a GPU holds no int32 variable

    def scale(self, loss: tf.Tensor) -> tf.Tensor:
        """The loss times the scale."""
        return loss * tf.cast(self._scale, loss.dtype) if self.enabled else loss

    def step(self, *optimizers: tuple[Sequence[tf.Tensor], Apply]) -> None:
        """Call each `apply` with its unscaled gradients, unless one of them overflowed; then adapt the scale."""
        taken = [self._step(*each) for each in optimizers]
        if not self.enabled:
            return
        finite = tf.reduce_all(taken)
        self._tracker.assign(tf.where(finite, self._tracker + 1, tf.constant(0, tf.int64)))
        grown = self._tracker == self.GROWTH_INTERVAL
        factor = tf.where(finite, tf.where(grown, 2.0, 1.0), 0.5)
        self._scale.assign(self._scale * factor)
        self._tracker.assign(tf.where(grown, tf.constant(0, tf.int64), self._tracker))

    def _step(self, gradients: Sequence[tf.Tensor], apply: Apply) -> tf.Tensor | bool:
        """Take one optimizer's step, unless a gradient overflowed; return whether it was taken."""
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        if not self.enabled:
            apply(dense)
            return True
        true = [gradient / self._scale for gradient in dense]

        def take() -> tf.Tensor:
            apply(true)
            return tf.constant(True)

        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in true])
        return tf.cond(finite, take, lambda: tf.constant(False))

    def state_dict(self) -> dict[str, np.ndarray]:
        """Scale and count, with PyTorch's names."""
        if not self.enabled:
            return {}
        return {"scale": np.asarray(self._scale.numpy()), "_growth_tracker": np.array(self._tracker.numpy(), np.int32)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework."""
        if self.enabled:
            self._scale.assign(float(state.get("scale", 2.0**10)))
            self._tracker.assign(int(state.get("_growth_tracker", 0)))
