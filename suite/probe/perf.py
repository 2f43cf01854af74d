"""Hardware counters of this process and all its threads, from Linux's `perf stat`, or why there are none."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO

EVENTS = {
    "instructions": "instructions:u",
    "cycles": "cycles:u",
    "cache misses": "cache-misses:u",
    "branch misses": "branch-misses:u",
}  # by our names; of user code, which Linux lets a user count where perf_event_paranoid is 2 or less
NO_PERF = "the program perf is not installed (package linux-perf, linux-tools or perf)"
REFUSED = {
    "<not supported>": "perf: this counter is not there, as on most virtual machines",
    "<not counted>": "perf: it was not counted",
}
OF_CORES = re.compile("cpu_[a-z]+/([^/:]+)(:u/|/u)")  # perf's name of an event on one kind of a hybrid's cores
LONGEST_REASON = 160  # characters
SECONDS = 10.0  # that perf may take to end


@dataclass
class Counted:
    """What was counted, by name, and for every other event why it was not."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def counted(call: Callable[[], object], events: Mapping[str, str] = EVENTS) -> Counted:
    """Run `call`, and meanwhile count `events` (perf's names by ours) in all threads of this process.

    If setpriv is installed, perf ends even when this process is killed; it would otherwise wait forever for orders.
    """
    program = shutil.which("perf")
    if program is None:
        call()
        return Counted(missing=dict.fromkeys(events, NO_PERF))
    orders, to_perf = os.pipe()
    from_perf, answers = os.pipe()
    words = ["stat", "-x", ",", "-e", ",".join(events.values()), "-p", str(os.getpid())]
    with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    perf = subprocess.Popen(
        [*with_us, program, *words, "--delay", "-1", "--control", f"fd:{orders},{answers}"],
        pass_fds=(orders, answers),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    os.close(orders)
    os.close(answers)
    with open(to_perf, "wb", buffering=0) as telling, open(from_perf, "rb", buffering=0) as hearing, perf:
        try:
            _order(telling, hearing, b"enable\n")
            call()
            _order(telling, hearing, b"disable\n")
            perf.send_signal(signal.SIGINT)
            _, told = perf.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            told = "perf did not end"
        finally:
            perf.kill()
    return read(told, events)


def read(told: str, events: Mapping[str, str]) -> Counted:
    """Parse what `perf stat -x,` printed about `events`, adding up the counts of several kinds of cores."""
    values: dict[str, list[str]] = defaultdict(list)
    for line in told.splitlines():
        value, _, event, *_ = [*line.split(","), "", ""]
        values[OF_CORES.sub(r"\1:u", event)].append(value)
    found = Counted()
    for name, event in events.items():
        numbers = [float(value) for value in values[event] if value not in REFUSED]
        if numbers:
            found.values[name] = sum(numbers)
        elif values[event]:
            found.missing[name] = REFUSED[values[event][0]]
        else:
            found.missing[name] = f"perf: {' '.join(told.split())}"[:LONGEST_REASON]
    return found


def _order(telling: FileIO, hearing: FileIO, order: bytes) -> None:
    """Send perf an order and wait until it is done; do nothing if perf has ended."""
    with suppress(BrokenPipeError):
        telling.write(order)
        hearing.read(16)
