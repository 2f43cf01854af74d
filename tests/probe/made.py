"""What is looked at: workloads that call a function, and tasks or models by the command."""

from collections.abc import Callable

from suite.probe import record
from suite.probe.__main__ import main
from suite.probe.workload import Workload

BRIEF = {"repeats": "1", "seconds": "0.02", "mlflow": "false"}


class Calls(Workload):
    """A workload whose step is the call of a function."""

    samples = 1

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.call()


def look(capsys, *words: str) -> list[record.Cell]:
    """The cells of a probe, which the command prints by its schema; it is brief where `words` do not say otherwise."""
    given = {word.partition("=")[0] for word in words}
    assert main([*words, *(f"{name}={value}" for name, value in BRIEF.items() if name not in given), "--json"]) == 0
    return record.Probe.model_validate_json(capsys.readouterr().out).cells
