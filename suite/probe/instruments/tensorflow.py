"""TensorFlow's instruments; see `Instruments`."""

# ruff: noqa: F401 (what the module offers)

from suite.probe.instruments.tensorflow_counting import apart, arithmetic, copy, flops
from suite.probe.instruments.tensorflow_judging import judged
from suite.probe.instruments.tensorflow_kernels import algorithm, kernel
from suite.probe.instruments.tensorflow_memory import memory
from suite.probe.instruments.tensorflow_models import model
from suite.probe.instruments.tensorflow_pictures import decoded, resized
from suite.probe.instruments.tensorflow_shadow import shadowed
from suite.probe.instruments.tensorflow_shapes import called
from suite.probe.instruments.tensorflow_timeline import timeline
from suite.probe.instruments.tensorflow_watch import watch
