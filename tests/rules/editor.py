"""An editor of evidence that changes it the way a cheat does: chained and sealed again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config import logkeys
from suite.measure.cost import cost, price_per_hour
from suite.measure.energy import energy
from suite.measure.samples import HEADER, format_row, read_samples
from suite.measure.systems import power_ceiling
from suite.record import evidence, mllog
from tests.rules.subject import CPU_ONLY, Record, accuracy
from tests.witness_server import Authority


class Evidence:
    """An evidence folder under a cheat's hands. After each edit it is consistent again, but for what was edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def copy(self, to: Path) -> Evidence:
        return Evidence(Path(shutil.copytree(self.folder, to)))

    def records(self) -> list[Record]:
        lines = (self.folder / evidence.LOG).read_text().splitlines()
        return [json.loads(line.removeprefix(mllog.TOKEN)) for line in lines]

    def write(self, records: list[Record | str], prev: str = mllog.FIRST_PREV) -> None:
        """Replace the log, chained from `prev` on and sealed. A text stands for a line as it is."""
        lines = []
        for record in records:
            if not isinstance(record, str):
                record["metadata"]["prev"] = prev
                record = mllog.TOKEN + json.dumps(record)
            lines.append(record)
            prev = mllog.line_hash(record.encode())
        (self.folder / evidence.LOG).write_text("".join(line + "\n" for line in lines))
        self.seal()

    def seal(self, files: Sequence[str] = evidence.SEALED) -> None:
        last = (self.folder / evidence.LOG).read_bytes().splitlines()[-1]
        evidence.seal(self.folder, mllog.line_hash(last), files)

    def edit(self, key: str, change: Callable[[Record], object], at: int = 0) -> None:
        """Change the record of `key` that is number `at` of its kind."""
        records = self.records()
        change([record for record in records if record["key"] == key][at])
        self.write(records)

    def edit_log(self, change: Callable[[list[Any]], object]) -> None:
        records = self.records()
        change(records)
        self.write(records)

    def edit_config(self, change: Callable[[Record], object]) -> None:
        """Change config.yaml and the sum of it that the log holds."""
        path = self.folder / evidence.CONFIG
        values = yaml.safe_load(path.read_text())
        change(values)
        path.write_text(yaml.safe_dump(values, sort_keys=False))
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        self.edit(logkeys.CONFIG, lambda record: record.update(value=sha256))

    def measure(self) -> None:
        """Let energy and cost be those of the time from run_start to run_stop, on two logical CPUs."""
        times = {record["key"]: record["time_ms"] for record in self.records()}
        start, stop = times[keys.RUN_START], times[keys.RUN_STOP]
        hw = config.system(yaml.safe_load((self.folder / evidence.CONFIG).read_text())["system"]["name"])
        used = asdict(energy(read_samples(self.folder / evidence.POWER), start, stop, power_ceiling(hw, CPU_ONLY)))
        joules, price = used.pop("joules"), cost(price_per_hour(hw, CPU_ONLY), (stop - start) / 1000)
        self.edit(logkeys.ENERGY, lambda r: r.update(value=joules, metadata={**r["metadata"], **used}))
        self.edit(logkeys.COST, lambda r: r.update(value=price))

    def stamp(self, authority: Authority, **moved: float) -> None:
        """Have begin and end of the clock stamped at their times, in seconds later by `moved`, by key."""
        for line in mllog.read(self.folder / evidence.LOG):
            if name := evidence.STAMPS.get(line.key):
                content = authority.stamp(line.raw, line.time_ms / 1000 + moved.get(line.key, 0))
                (self.folder / name).write_bytes(content)
        self.seal()

    def edit_system(self, change: Callable[[Record], object]) -> None:
        path = self.folder / evidence.SYSTEM
        values = json.loads(path.read_text())
        change(values)
        path.write_text(json.dumps(values, indent=1))
        self.seal()

    def recode(self, **changes: Any) -> None:
        """Let log and system description tell another revision, or that it was changed."""
        self.edit_system(lambda values: values["git"].update(changes))
        told = {f"git_{name}": value for name, value in changes.items()}
        self.edit(logkeys.CONFIG, lambda record: record["metadata"].update(told))

    def forget_states(self) -> None:
        """Let the log name no state, as one of an older suite."""
        records = [record for record in self.records() if record["key"] != logkeys.STATE]
        for record in records:
            record["metadata"].pop("state_sha256", None)
        self.write(records)

    def boot(self) -> None:
        """Let the log tell that it was begun when its machine had been up for a thousand seconds, as all others do."""
        clock = {"boot": "one boot", "offset_ms": self.records()[0]["time_ms"] - 1_000_000}
        self.edit(logkeys.CONFIG, lambda record: record["metadata"].update(clock=clock))

    def retime(self, to: Callable[[int], int]) -> None:
        """Let log and power samples have other times, in milliseconds."""
        path = self.folder / evidence.POWER
        header, *rows = path.read_text().splitlines()
        cells = {to(int(at)): rest for at, rest in (row.split(",", 1) for row in rows)}
        path.write_text("".join(f"{row}\n" for row in (header, *(f"{at},{rest}" for at, rest in cells.items()))))
        self.write([record | {"time_ms": to(record["time_ms"])} for record in self.records()])

    def move(self, by_ms: int) -> None:
        """Let the run have been made at another time."""
        self.retime(lambda time_ms: time_ms + by_ms)

    def squeeze(self, times: int) -> None:
        """Let the run have taken so many times less, by its log and by its power samples, on two logical CPUs."""
        start = next(record["time_ms"] for record in self.records() if record["key"] == keys.RUN_START)

        def sooner(time_ms: int) -> int:
            return min(time_ms, start + max(0, time_ms - start) // times)

        def change(records: list[Record]) -> None:
            for record in records:
                if record["key"] == logkeys.TRACKED:
                    record["value"]["throughput"] *= times

        self.retime(sooner)
        self.edit_log(change)
        self.measure()

    def power(self, **watts: float) -> None:
        """Let counters of power.csv have run at these watts, and the energy be theirs."""
        path = self.folder / evidence.POWER
        samples = read_samples(path)
        joules = {name: each / 1000 for name, each in watts.items()}
        made = [
            sample._replace(**{name: each * (sample.time_ms - samples[0].time_ms) for name, each in joules.items()})
            for sample in samples
        ]
        path.write_text("\n".join([HEADER, *map(format_row, made)]) + "\n")
        self.measure()

    def edit_predictions(self, predictions: list[Any]) -> None:
        """Change the predictions and what the last evaluation says of them."""
        sha256 = evidence.write_predictions(self.folder / evidence.PREDICTIONS, predictions)
        evidence.keep_predictions(self.folder / evidence.PREDICTIONS, sha256)
        score = accuracy(predictions)

        def change(record: Record) -> None:
            record["value"] = score
            record["metadata"].update(metrics={"accuracy": score}, predictions_sha256=sha256)

        self.edit(keys.EVAL_ACCURACY, change, at=-1)
