"""PyTorch's instruments; see `Instruments`."""

# ruff: noqa: F401 (what the module offers)

from suite.probe.instruments.torch_counting import apart, arithmetic, copy, flops
from suite.probe.instruments.torch_judging import judged
from suite.probe.instruments.torch_kernels import algorithm, kernel
from suite.probe.instruments.torch_memory import memory
from suite.probe.instruments.torch_models import model
from suite.probe.instruments.torch_pictures import decoded, resized
from suite.probe.instruments.torch_shadow import shadowed
from suite.probe.instruments.torch_shapes import called
from suite.probe.instruments.torch_timeline import timeline
from suite.probe.instruments.torch_watch import watch
