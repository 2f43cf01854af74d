"""A run in the terminal, a view of its log: a live line while it is built and trains, else plain lines."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from mlperf_logging.mllog import constants as keys
from rich.console import Console
from rich.live import Live
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from suite.config.logkeys import ENVIRONMENT, RESTART, WITNESS
from suite.config.models import Benchmark
from suite.measure.cost import cost
from suite.record.mllog import Line
from suite.record.summary import format_cost, format_energy, format_seconds


class Terminal:
    """Shows one run. `price_per_hour` is in `currency`, None if not known.

    `energy()` returns joules so far and their source, `now_ms()` the time by the log's clock.
    """

    def __init__(
        self,
        console: Console,
        title: str,
        benchmark: Benchmark,
        price_per_hour: float | None,
        currency: str | None,
        energy: Callable[[], tuple[float | None, str | None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._console, self._title, self._benchmark = console, title, benchmark
        self._price, self._currency, self._energy, self._now_ms = price_per_hour, currency, energy, now_ms
        self._quality: float | None = None
        self._start_ms: int | None = None
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_interactive else None
        columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
        self._building = Progress(*columns, console=console, transient=True) if console.is_interactive else None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._building and self._live:
            self._building.stop()
            self._live.stop()

    def line(self, line: Line) -> None:
        """Take a line of the log: a listener of `Log`."""
        self.recall(line)
        if line.key == keys.INIT_START:
            self._build("building and warming up")
        elif line.key == RESTART:
            lost = format_seconds(line.metadata["lost_ms"] / 1000)
            begun = self._start_ms is not None
            what = f"going on from {line.metadata['samples_count']:,} samples" if begun else "initialising again"
            where = "" if begun else " as initialisation"
            self._build(f"{what}; {lost} were lost and count{where}")
        elif line.key == ENVIRONMENT:
            if line.metadata["when"] == "before":
                self._built()
            if line.value == "noisy":
                self._say("noisy machine: " + "; ".join(line.metadata["reasons"]), style="yellow")
        elif line.key == WITNESS and line.metadata["problems"]:
            self._say(f"not witnessed by {line.value}: " + "; ".join(line.metadata["problems"]), style="yellow")
        elif line.key == keys.EVAL_ACCURACY:
            self._say(self._progress(line.metadata["samples_count"], None))
            if refused := line.metadata.get("refused"):
                self._say(f"score refuses what predict returned: {refused}", style="yellow")

    def recall(self, line: Line) -> None:
        """Take a line that an interrupted command has already shown, without showing it again."""
        if line.key == keys.RUN_START:
            self._start_ms = line.time_ms
        elif line.key == keys.EVAL_ACCURACY:
            self._quality = line.value

    def tick(self, samples: int, rate: float) -> None:
        """Refresh the live line: `samples` seen, `rate` samples per second."""
        if self._live:
            self._live.update(Text(self._progress(samples, rate), style="cyan"), refresh=True)

    def _build(self, text: str) -> None:
        self._say(text)
        if self._building:
            self._building.add_task(self._title)
            self._building.start()

    def _built(self) -> None:
        """Replace the building line, drawn by a thread, by one without a thread, which could slow the timed run."""
        if self._building and self._live:
            self._building.stop()
            self._live.start()

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(f"{self._title}  {text}", style=style), soft_wrap=True)

    def _progress(self, samples: int, rate: float | None) -> str:
        benchmark = self._benchmark
        quality = "not yet evaluated" if self._quality is None else f"{self._quality:.4g}"
        parts = [f"{samples:,} samples", f"{benchmark.metric} {quality} (target {benchmark.target:g})"]
        if rate is not None:
            parts.append(f"{rate:,.0f} samples/s")
        if self._start_ms is not None:
            seconds = (self._now_ms() - self._start_ms) / 1000
            parts.append(format_seconds(seconds))
            if (spent := cost(self._price, seconds)) is not None:
                parts.append(format_cost(spent, self._currency))
            joules, source = self._energy()
            if joules is not None:
                parts.append(format_energy(joules, source))
        if rate and samples < benchmark.evaluation.first:
            seconds = (benchmark.evaluation.first - samples) / rate
            parts.append(f"target in {format_seconds(seconds)} at the earliest")
        return " | ".join(parts)
