"""Put a model under all the loads that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydantic import BaseModel

from suite.errors import BadPrediction, BrokenContract, UserError, shown
from suite.probe.showing import number
from suite.serve.asking import Asked
from suite.serve.model import Examples
from suite.serve.options import Options
from suite.serve.rate import highest, offline, stream
from suite.serve.scenarios import Ask, Load, load


class Measured(BaseModel, frozen=True):
    """The results. `quality` is of the served answers, None if they cannot be scored, which `unscored` says why;
    `trained` is what the run logged.

    `highest` is the highest rate that kept the `bound` on the latency in the scenario `server`, `too_high` the lowest
    that did not; each is None if none was found, as when requests failed. All three are None if none was searched for.
    `stopped` says why there are no more loads than those that had ended, None if all were put on.
    """

    benchmark: str
    metric: str
    trained: float | None
    quality: float | None
    unscored: str | None = None
    loads: list[Load]
    bound: float | None = None
    highest: float | None = None
    too_high: float | None = None
    stopped: str | None = None


def measure(
    wanted: Options,
    examples: Examples,
    asked: Asked,
    say: Callable[[str], None],
) -> Measured:
    """Ask for each example once and score the answers, then put each load on. `say` gets what is being done."""
    patient = partial(asked.submit, wait=True)
    benchmark = examples.plan.benchmark
    say("the quality of its answers")
    quality, unscored = _quality(examples, patient)
    measured = Measured(
        benchmark=benchmark.name,
        metric=benchmark.metric,
        trained=examples.trained,
        quality=quality,
        unscored=unscored,
        loads=[],
    )
    ended: list[Load] = []

    def loaded(scenario: str, ask: Ask, rate: float | None = None, expected: float | None = None) -> Load:
        say(f"{scenario}{'' if rate is None else f' at {number(rate)}/s'}")
        ended.append(load(scenario, ask, examples.count, wanted.seconds, rate, wanted.latency, expected))
        return ended[-1]

    def streamed(scenario: str) -> Load:
        return stream(lambda expected: loaded(scenario, asked.submit, expected=expected), wanted.seconds)

    bound = kept = broken = None
    all_at_once = None
    try:
        loads = [streamed(each) for each in wanted.scenarios if each.endswith("stream")]
        if "offline" in wanted.scenarios or ("server" in wanted.scenarios and wanted.rate is None):
            all_at_once = offline(lambda rate: loaded("offline", patient, rate), examples.count / wanted.seconds)
        if "offline" in wanted.scenarios and all_at_once:
            loads.append(all_at_once)
        if "server" in wanted.scenarios and wanted.rate is not None:
            loads.append(loaded("server", asked.submit, wanted.rate))
        elif "server" in wanted.scenarios:
            first = (all_at_once.reached if all_at_once else None) or 1.0
            streams = (each for each in loads if each.scenario == "single-stream")
            alone = next(streams, None) or streamed("single-stream")
            bound = wanted.latency
            lost = [each for each in (alone, all_at_once) if each and (each.failed or each.shed)]
            loads += [each for each in lost if each not in loads]
            if not lost and alone.latencies["50"] <= bound:  # else no rate keeps it
                found = highest(lambda rate: loaded("server", asked.submit, rate), first / 2, alone.reached or 0.0)
                kept, broken = found.kept, found.broken
                loads += sorted(found.loads, key=lambda each: each.rate or 0.0)
    except UserError as error:
        return measured.model_copy(update={"loads": ended, "stopped": str(error)})
    return measured.model_copy(update={"loads": loads, "bound": bound, "highest": kept, "too_high": broken})


def _quality(examples: Examples, patient: Ask) -> tuple[float | None, str | None]:
    """The quality of the served answers, or why they have none.

    Raises BrokenContract for what an implementation may not do, and what the first request raised if all failed.
    """
    futures = [patient(index) for index in range(examples.count)]
    errors = [error for error in (future.exception() for future in futures) if error]
    broken = [error for error in errors if isinstance(error, BrokenContract)]
    if broken or len(errors) == len(futures):
        raise (broken or errors)[0]
    if errors:
        first, kind = errors[0], type(errors[0]).__name__
        why = shown(str(first) if isinstance(first, UserError) else f"{kind}: {first}")
        return None, f"{len(errors):,} of {len(futures):,} requests failed, the first with {why}"
    try:
        return examples.quality([future.result() for future in futures]), None
    except BadPrediction as error:
        return None, shown(str(error))
