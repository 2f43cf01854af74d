"""What makes a wrong variant of the eighth task: one mistake that its author could have made.

Each variant is a function of pytest's `monkeypatch` that changes the task's module, the implementation's, or
conf/task/parity.yaml, of which the test has a copy.
"""

import dataclasses
import importlib
import types

import numpy as np
import yaml

from suite.config import folder

TASK, IMPLEMENTATION = "tasks.parity", "reference_impls.parity.numpy"


def lacking(module, name):
    """The module without `name`."""
    return lambda patch: patch.delattr(importlib.import_module(module), name)


def having(module, **names):
    """The module with other values, which are made from the true ones where they are functions of them."""

    def apply(patch):
        target = importlib.import_module(module)
        for name, value in names.items():
            made = value(getattr(target, name, None)) if isinstance(value, types.LambdaType) else value
            patch.setattr(target, name, made, raising=False)

    return apply


def returning(name, change):
    """The task's function `name`, its value changed."""
    return having(TASK, **{name: lambda true: lambda *arguments: change(true(*arguments))})


def answering(name, change):
    """The implementation's method `name`, its value changed."""
    return method(name, lambda true: lambda self, *arguments: change(true(self, *arguments)))


def method(name, make):
    """The implementation's method `name`, made from the true one."""

    def apply(patch):
        model = importlib.import_module(IMPLEMENTATION).LogisticRegression
        patch.setattr(model, name, make(getattr(model, name)))

    return apply


def peeking(name, look=np.mean):
    """`build` that does `look` at the array `name` first."""

    def made(true):
        def build(hyperparameters, data, seed, device):
            look(data[name])
            return true(hyperparameters, data, seed, device)

        return build

    return having(IMPLEMENTATION, build=made)


def declaring(change):
    """conf/task/parity.yaml after `change(scale's values)`."""

    def apply(patch):
        path = folder.CONF / "task" / "parity.yaml"
        values = yaml.safe_load(path.read_text())
        change(values["scales"]["mini"])
        path.write_text(yaml.safe_dump(values))
        folder.load.cache_clear()

    return apply


def recount(change):
    return lambda stats: dataclasses.replace(stats, samples=change(stats.samples))
