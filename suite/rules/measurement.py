"""Checks of the chapter "Power and cost": energy, cost and noise are derived again from the data they rest on."""

from __future__ import annotations

from collections.abc import Iterator

from suite import config as suite_config
from suite.config.logkeys import COST, ENERGY, ENVIRONMENT
from suite.config.models import Price
from suite.errors import shown
from suite.measure.accelerators.devices import LIBRARY
from suite.measure.energy import ESTIMATED, MIN_COVERAGE, RAPL, energy
from suite.measure.noise import judge, load_reasons
from suite.record.evidence import CONFIG, LOG, POWER, SYSTEM
from suite.record.parsing import close, differences, number, same, whole
from suite.rules.finding import Finding
from suite.rules.reading import RUN, Evidence

MAX_INTERVAL_S = 2.0  # the median between two samples; the suite samples once a second, as MLPerf asks for
SHORT_MS = 20_000  # in a shorter run one pause, of which at most ten seconds count, can decide that median
PRICES = ("price_per_hour", "price_per_cpu_hour")
CEILINGS = ("power_ceiling_w", "power_ceiling_w_per_cpu")

_AS_WRITTEN = "submit the figures that the suite logged"


@RUN.rule("measurement.1")
def energy_holds(run: Evidence) -> Iterator[Finding]:
    """The energy is that of the samples between run_start and run_stop, and an estimate is labelled as one."""
    line, start, stop = run.last(ENERGY), run.timeline.run_start, run.timeline.run_stop
    if not (line and start and stop and run.samples is not None and run.intact(POWER, CONFIG, SYSTEM)):
        return
    for name in CEILINGS:
        value = run.configured("system", name)
        if value is not None and not (number(value) or 0) > 0:
            yield Finding(CONFIG, run.config_line("system", name), f"{name}, a number above 0", value, _AS_WRITTEN)
    if (most := max((sample.node for sample in run.samples), default=0)) >= run.nodes:
        expected = f"samples of {run.nodes} nodes, from 0 on, as configured"
        yield Finding(POWER, None, expected, f"some of node {most}", _AS_WRITTEN)
    used = energy(run.samples, start.time_ms, stop.time_ms, _power_ceiling(run), run.nodes, _library(run))
    claims = {"joules": line.value, **line.metadata}
    for name in ("joules", "source", "coverage", "interval_s", "mean_w"):
        derived = getattr(used, name)
        if not _agree(derived, claims.get(name)):
            expected = f"{name} {derived}, derived from {POWER}"
            yield Finding(LOG, line.number, expected, claims.get(name), _AS_WRITTEN)
    covers = claims.get("covers")  # older evidence lacks it, and is of one machine
    if (covers is not None or run.nodes > 1) and not same(list(used.covers), covers):
        expected = f"covers {list(used.covers)}, derived from {POWER}"
        yield Finding(LOG, line.number, expected, covers, _AS_WRITTEN)


@RUN.rule("measurement.2")
def energy_covers(run: Evidence) -> Iterator[Finding]:
    """A note where the energy is not known, covers a part of the run only, or lacks the accelerators."""
    line = run.last(ENERGY)
    coverage = number(line.metadata.get("coverage")) if line else None
    if line and line.value is None:
        yield Finding(LOG, line.number, "an energy", "not known", "give the system a power ceiling or counters", "note")
    elif line and coverage is not None and coverage < MIN_COVERAGE:
        expected, found = f"an energy of at least {MIN_COVERAGE:.0%} of the run", f"of {coverage:.0%}"
        found += ": nothing was measured of a node" if coverage == 0 else ""
        yield Finding(LOG, line.number, expected, found, "none: read the energy as that part's", "note")
    if line and (lacks := unmetered(run)):
        found = f"{line.metadata.get('source')} alone"
        yield Finding(LOG, line.number, f"an energy of the {lacks}", found, "none: read it as without them", "note")


def unmetered(run: Evidence) -> str:
    """What took part in a run but is missing from its metered energy; empty where nothing is known to be missing.

    A coverage of 0 means that a node was not measured, and does not tell what the other nodes' energy is of.
    """
    line = run.last(ENERGY)
    if line is None or line.value is None or run.configured("system", "accelerator") is None:
        return ""
    if number(line.metadata.get("coverage")) == 0:
        return ""
    source, covers = line.metadata.get("source"), line.metadata.get("covers")
    counted = "accelerator" in covers if isinstance(covers, list) else source != RAPL
    return "" if counted or not isinstance(source, str) or ESTIMATED in source.split("+") else "accelerators"


@RUN.rule("measurement.6")
def energy_sampled(run: Evidence) -> Iterator[Finding]:
    """An energy is derived from samples at short intervals."""
    line, start, stop = run.last(ENERGY), run.timeline.run_start, run.timeline.run_stop
    if not (line and line.value is not None and start and stop and run.samples and run.intact(POWER, CONFIG, SYSTEM)):
        return
    interval_s = energy(run.samples, start.time_ms, stop.time_ms, _power_ceiling(run), run.nodes).interval_s
    if interval_s is not None and interval_s > MAX_INTERVAL_S:
        expected = f"a power sample at least every {MAX_INTERVAL_S:g} s (median)"
        mend = "run it again where the sampler gets its turn, or submit no energy"
        short = stop.time_ms - start.time_ms < SHORT_MS
        yield Finding(LOG, line.number, expected, f"every {interval_s:.3g} s", mend, "note" if short else "fail")


@RUN.rule("measurement.3")
def cost_holds(run: Evidence) -> Iterator[Finding]:
    """The cost is the configured price times the time from run_start to run_stop, and says whose price it is."""
    line, start, stop = run.last(COST), run.timeline.run_start, run.timeline.run_stop
    if not (line and start and stop and run.intact(CONFIG, SYSTEM)):
        return
    yield from _improper_price(run)
    price = _price_per_hour(run)
    if not _agree(price, line.metadata.get("price_per_hour")):
        expected = f"price_per_hour {price}, as configured"
        yield Finding(LOG, line.number, expected, line.metadata.get("price_per_hour"), _AS_WRITTEN)
    hours = (stop.time_ms - start.time_ms) / 3_600_000
    cost = None if price is None else price * hours
    if not _agree(cost, line.value):
        yield Finding(LOG, line.number, f"{cost}: {price} an hour for {hours:.6g} hours", line.value, _AS_WRITTEN)
    source = run.configured("system", "price")
    for name, value in source.items() if isinstance(source, dict) else ():
        if not same(value, line.metadata.get(name)):
            expected = f"{name} {value} of the price, as configured"
            yield Finding(LOG, line.number, expected, line.metadata.get(name), _AS_WRITTEN)


@RUN.rule("measurement.4")
def own_price(run: Evidence) -> Iterator[Finding]:
    """A price that is not the suite's is shown as the submitter's own."""
    name = run.configured("system", "name")
    if name not in suite_config.names("hw"):
        return
    listed = suite_config.system(name).model_dump(mode="json", include={*PRICES, "price"})
    own = {price: run.configured("system", price) for price in listed}
    for path, right, wrong in differences(listed, own):
        where = run.config_line("system", *path)
        expected = f"{'.'.join(map(str, path))} {right} of conf/hw/{name}.yaml"
        yield Finding(CONFIG, where, expected, f"{wrong}, the submitter's own", "none", "note")


@RUN.rule("measurement.5")
def quiet(run: Evidence) -> Iterator[Finding]:
    """A note where the machine was not quiet, by the log or by the samples, or where that was not checked."""
    mend = "repeat the run with nothing else on the machine"
    for file, line, reason in _disturbed(run):
        yield Finding(file, line, "a quiet machine", reason, mend, "note")


def noise(run: Evidence) -> tuple[str, ...]:
    """Why the run bears the mark NOISY, each reason once; empty where the machine was quiet."""
    return tuple(dict.fromkeys(shown(reason) for _, _, reason in _disturbed(run)))


def _disturbed(run: Evidence) -> Iterator[tuple[str, int | None, str]]:
    """Each reason for the mark NOISY, with the file and line that show it."""
    lines = run.lines_of.get(ENVIRONMENT, [])
    for when in ("before", "during"):
        if run.readable and when not in [line.metadata.get("when") for line in lines]:
            yield LOG, None, f"not looked at {when} the run"
    if all(line.value == "quiet" for line in lines) and run.samples:
        for reason in judge(run.samples, {}, 1.0).reasons:
            yield POWER, None, reason
    for line in lines:
        others, steal, told = (line.metadata.get(name) for name in ("others", "steal", "reasons"))
        reasons = told if isinstance(told, list) and told else load_reasons(number(others), number(steal))
        if reasons or line.value != "quiet":
            yield LOG, line.number, "; ".join(map(str, reasons)) or str(line.value)


def _improper_price(run: Evidence) -> Iterator[Finding]:
    """Where a configured price is not a number from 0, or does not say where it comes from."""
    for name in PRICES:
        value = run.configured("system", name)
        figure = number(value)
        if value is not None and (figure is None or figure < 0):
            yield Finding(CONFIG, run.config_line("system", name), f"{name}, a number from 0", value, _AS_WRITTEN)
    if _price_per_hour(run) is None:
        return
    for name in Price.model_fields:
        text = run.configured("system", "price", name)
        if not isinstance(text, str) or (name in ("provider", "source") and not text.strip()):
            where = run.config_line("system", "price", name)
            mend = "say where the price comes from; hw.price_per_hour= alone says that it was set by hand"
            yield Finding(CONFIG, where, f"{name} of the price, as text", text or "nothing", mend)


def _library(run: Evidence) -> str | None:
    """What the accelerators were measured with, if that is the name of a library."""
    named = run.described("detected", "library")
    return named if isinstance(named, str) and LIBRARY.fullmatch(named) else None


def _power_ceiling(run: Evidence) -> float | None:
    """The configured power ceiling of one node."""
    return _of_node(run, *CEILINGS)


def _price_per_hour(run: Evidence) -> float | None:
    """The configured price of all nodes together."""
    each = _of_node(run, *PRICES)
    return None if each is None else each * run.nodes


def _of_node(run: Evidence, total: str, per_cpu: str) -> float | None:
    """A node's configured figure, else its figure per logical CPU times its number of logical CPUs."""
    figure = number(run.configured("system", total))
    if figure is not None:
        return figure
    each, cpus = number(run.configured("system", per_cpu)), whole(run.described("detected", "logical_cpus"))
    return None if each is None or cpus is None else each * cpus


def _agree(derived: object, logged: object) -> bool:
    return close(derived, logged) or same(derived, logged)
