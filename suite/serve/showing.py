"""Show a model under load, in the terminal and as a page."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.plots import charts, templates
from suite.plots.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart
from suite.probe.showing import number
from suite.record.tables import show_table
from suite.serve.measuring import Measured
from suite.serve.scenarios import MLPERF_SECONDS, SCENARIOS, Load

DRAWN = "99"  # the percentile that counts in the server scenario


def show(console: Console, found: Measured, told: list[str]) -> None:
    """Print the loads as a table, `told` before it and remarks after it."""
    for line in (*told, quality(found)):
        console.print(Text(line), soft_wrap=True)
    table = Table("scenario", *(title for title, _ in COLUMNS), "counts")
    for load in found.loads:
        table.add_row(load.scenario, *(cell(load) for _, cell in COLUMNS), Text(verdict(load), overflow="fold"))
    show_table(console, table)
    for line in remarks(found):
        console.print(Text(line), soft_wrap=True)


def page(found: Measured, told: list[str]) -> str:
    """The same as one self-contained page, with a chart of the latency against the rate."""
    return templates.page(
        "serve.html",
        "suite.serve",
        js=(),
        found=found,
        told=[*told, quality(found)],
        columns=COLUMNS,
        verdict=verdict,
        remarks=remarks(found),
        chart=chart(found),
    )


def chart(found: Measured) -> Chart | None:
    """The 99th percentile of the latency against the rate, and the bound; None without at least two rates."""
    served = [load for load in found.loads if load.scenario == "server" and DRAWN in load.latencies]
    places = sorted((load.rate or 0.0, 1e3 * load.latencies[DRAWN]) for load in served)
    if len(places) < 2:
        return None
    bound = 1e3 * (served[0].bound or 0.0)
    across = charts.Scale(0, max(x for x, _ in places), LEFT, WIDTH - RIGHT)
    up = charts.Scale(0, min(4 * bound, max(bound, *(y for _, y in places))), HEIGHT - BOTTOM, TOP)
    return Chart(
        axis="queries a second",
        metric=f"{DRAWN}th percentile of the latency, ms",
        x_ticks=across.ticks(),
        y_ticks=up.ticks(),
        curves=[charts.curve(found.benchmark, 0, places, across, up)],
        target=up.at(bound),
        target_value=bound,
    )


def quality(found: Measured) -> str:
    """The quality of the served answers beside that of the run."""
    served, trained = ("not known" if each is None else f"{each:.4g}" for each in (found.quality, found.trained))
    why = f" ({found.unscored})" if found.unscored else ""
    return f"{found.metric} of the served answers {served}{why}; the run logged {trained}"


def verdict(load: Load) -> str:
    """Whether a load counts, and why not."""
    return "yes" if load.valid else "; ".join(load.problems)


def remarks(found: Measured) -> list[str]:
    """What follows from the loads, and their limits."""
    lines = [f"not all loads were put on: {found.stopped}"] if found.stopped else []
    if found.bound:
        bound = f"{1e3 * found.bound:g} ms at the {DRAWN}th percentile"
        above = f", {number(found.too_high)}/s was not shown to" if found.too_high else ""
        if found.highest:
            lines.append(f"{number(found.highest)}/s keeps {bound}{above}")
        elif any(load.failed or (load.shed and load.scenario == "single-stream") for load in found.loads):
            lines.append(f"the highest rate that keeps {bound} is not known: requests were not answered")
        else:
            lines.append(f"no rate keeps {bound}")
    shortest = min((load.seconds for load in found.loads), default=MLPERF_SECONDS)
    if shortest < MLPERF_SECONDS:
        lines.append(
            f"the shortest load took {shortest:.0f} s; MLPerf asks for {MLPERF_SECONDS}: seconds={MLPERF_SECONDS}"
        )
    lines += [f"{name}: {SCENARIOS[name].meaning}" for name in dict.fromkeys(load.scenario for load in found.loads)]
    return lines


def _milliseconds(percentile: str) -> tuple[str, Callable[[Load], str]]:
    def cell(load: Load) -> str:
        return number(1e3 * load.latencies[percentile]) if percentile in load.latencies else ""

    return f"p{percentile}, ms", cell


COLUMNS: tuple[tuple[str, Callable[[Load], str]], ...] = (
    ("asked/s", lambda load: number(load.rate)),
    ("samples/s", lambda load: number(load.reached)),
    ("queries", lambda load: f"{load.queries:,}"),
    *(_milliseconds(each) for each in ("50", "90", "99", "99.9")),
    ("counts, ms", lambda load: "" if load.counts is None else number(1e3 * load.counts)),
)
