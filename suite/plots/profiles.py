"""Performance profiles: the share of the benchmarks in which each system is within a factor of the fastest."""

from __future__ import annotations

from collections.abc import Mapping

from suite.plots.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, Scale, curve
from suite.plots.scatter import LogScale, figure

LEAST = 2  # systems; the axis of factors goes at least as far, too


def profiles(times: Mapping[str, Mapping[str, float]]) -> Chart | None:
    """The profiles of systems from their times in each benchmark; None if no two have a benchmark in common.

    A system's curve at a factor t is the share of the benchmarks in which its time is at most t times that of the
    fastest system; one that it lacks is never counted (E. D. Dolan and J. J. More 2002, Benchmarking optimization
    software with performance profiles, Math. Program. 91; AlgoPerf scores by them, G. E. Dahl et al. 2023,
    arXiv:2306.07179). A benchmark that only one system has is left out, since that would be the fastest of one.
    """
    all_of: dict[str, list[float]] = {}
    for each in times.values():
        for benchmark, seconds in each.items():
            all_of.setdefault(benchmark, []).append(seconds)
    fastest = {benchmark: min(each) for benchmark, each in all_of.items() if len(each) >= LEAST}
    if not fastest:
        return None
    ratios = {
        name: sorted(each[which] / least for which, least in fastest.items() if which in each)
        for name, each in times.items()
        if fastest.keys() & each.keys()
    }
    most = max([LEAST, *(ratio for each in ratios.values() for ratio in each)])
    across, up = LogScale([1.0, most], LEFT, WIDTH - RIGHT), Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    curves = []
    for kind, (name, factors) in enumerate(ratios.items()):
        places, height = [(1.0, 0.0)], 0.0
        for count, at in enumerate(factors, 1):
            places += [(at, height), (at, height := count / len(fastest))]
        curves.append(curve(name, kind, [*places, (most, height)], across, up))
    return Chart(
        axis="times as long as the fastest",
        metric="share of the benchmarks",
        x_ticks=across.ticks(figure),
        y_ticks=up.ticks(),
        curves=curves,
    )
