"""Times that are known add up to what they must."""

import json
import tracemalloc

import pytest

from suite.bricks import record
from suite.bricks.__main__ import main
from suite.bricks.chaining import Bricks
from suite.bricks.composing import compose, counted
from suite.bricks.record import Cache, Key, Time
from suite.bricks.recorded import Recorded
from suite.errors import UserError
from suite.measure.noise import Environment
from tests.bricks import made

TIMES = (
    Time(hot=(1000.0, 2000.0, 1200.0), cold=(3000.0,), held=60),
    Time(hot=(100.0, 300.0, 200.0), cold=(400.0,), held=20),
    Time(why="refused"),
)


def test_a_chain_is_the_sum_of_its_bricks():
    composed = compose(made.model(0, 1, 1), TIMES, made.CACHE)
    assert composed.sequential.value == pytest.approx(1.6)  # the median of 1.2, 2.6 and 1.6 ms
    assert (composed.hot, composed.cold) == pytest.approx((1.6, 3.8))
    assert (composed.steps, composed.unique, composed.missing) == (3, 2, 0)


def test_of_two_rounds_the_quicker_counts_in_every_time():
    times = (Time(hot=(100.0, 200.0), cold=(110.0, 500.0), held=20),)
    for size, time in ((1000, 0.1), (1, 0.11)):  # none of it comes from memory, all of it
        composed = compose(made.model(0), times, made.CACHE.model_copy(update={"size": size}))
        assert (composed.hot, composed.cold) == pytest.approx((0.1, 0.11))
        assert (composed.sequential.value, composed.critical) == pytest.approx((time, time))


def test_where_the_quickest_counts_each_brick_has_the_round_that_was_its_quickest():
    times = (
        Time(hot=(1000.0, 2000.0, 1200.0, 1200.0, 1500.0), cold=(3000.0, 3500.0), held=60),
        Time(hot=(300.0, 100.0, 200.0, 200.0, 400.0), cold=(330.0, 600.0), held=20),
    )
    timings = made.timings(*times).model_copy(update={"quickest": True})
    composed = compose(made.model(0, 1, 1), counted(timings), made.CACHE)
    assert (composed.sequential.value, composed.sequential.low) == (pytest.approx(1.2), None)
    assert (composed.hot, composed.cold) == pytest.approx((1.2, 3.0 + 2 * 0.11))  # of the same rounds 1.1 times as long


def test_what_the_host_does_between_calls_is_at_its_own_pace():
    model = made.model(0, 1, 1).model_copy(update={"between": 4.0})
    composed = compose(model, TIMES, made.CACHE, pace=100.0)
    assert composed.between == pytest.approx(0.4)
    assert composed.sequential.value == pytest.approx(1.6 + 0.4)
    assert (composed.hot, composed.cold, composed.critical) == pytest.approx((2.0, 4.2, 2.0))
    for untold in (compose(model, TIMES, made.CACHE), compose(made.model(0, 1, 1), TIMES, made.CACHE, pace=100.0)):
        assert (untold.between, untold.sequential.value) == (None, pytest.approx(1.6))


def test_a_host_that_does_nothing_between_calls_is_known_to():
    for between in (0.0, None):
        model = Bricks(1).add(made.CONDITIONS, [Recorded(between=between)])
        assert model.between == between


def test_batches_have_places_of_a_run_where_those_of_all_are_known():
    assert Bricks(1).add(made.CONDITIONS, [Recorded(at=5), Recorded(at=9)]).at == (5, 9)
    assert Bricks(1).add(made.CONDITIONS, [Recorded(at=5), Recorded()]).at == ()


def test_a_step_without_calls_takes_what_the_host_does():
    composed = compose(made.model().model_copy(update={"between": 4.0}), TIMES, made.CACHE, pace=100.0)
    assert composed.sequential.value == pytest.approx(0.4)


@pytest.mark.parametrize(("size", "share"), [(1600, 0), (200, 0), (100, 0.5), (80, 1), (10, 1)])
def test_what_the_cache_does_not_keep_comes_from_memory(size, share):
    missed = (0, 0, 0, 0, 0, 0, 0, 0.5, 1)  # half of what is as large as it, all of an eighth more
    composed = compose(made.model(0, 1, 1), TIMES, Cache(size=size, missed=missed))  # holds 100 bytes
    assert composed.share == pytest.approx(share)
    assert composed.sequential.value == pytest.approx(1.6 + share * (3.8 - 1.6))
    assert composed.critical == pytest.approx(1.6 + share * (3.8 - 1.6))


def test_what_operators_make_goes_through_the_cache_too():
    times = tuple(each.model_copy(update={"given": 10}) for each in TIMES)
    missed = (0, 0, 0, 0, 0, 0, 0, 0, 1)
    shares = [compose(made.model(0, 1, 1), times, Cache(size=size, missed=missed)).share for size in (100, 130)]
    assert shares == [1, 0]  # 100 bytes of weights, and three times ten


def test_of_branches_the_longest_counts():
    forked = made.model(0, 0, 1, 1, after=((), (0,), (0,), (1, 2)))
    composed = compose(forked, TIMES, made.CACHE)
    assert composed.critical == pytest.approx(1.2 + 1.2 + 0.2)
    assert composed.sequential.value == pytest.approx(2.8)


def test_a_longest_path_of_all_bricks_takes_the_whole_time_where_each_was_disturbed_in_another_round():
    times = (Time(hot=(100.0, 100.0, 1000.0)), Time(hot=(100.0, 1000.0, 100.0)), Time(hot=(1000.0, 100.0, 100.0)))
    composed = compose(made.model(0, 1, 2).model_copy(update={"between": 1.0}), times, made.CACHE, pace=100.0)
    assert composed.sequential.value == pytest.approx(1.3)
    assert (composed.critical, *composed.batches) == pytest.approx((1.3, 1.3))


def test_the_time_of_batches_is_their_mean():
    two = made.model(0, 1, 1, after=((), (0,), ())).model_copy(update={"starts": (0, 2)})
    composed = compose(two, TIMES, made.CACHE)
    assert composed.sequential.value == pytest.approx(1.6 / 2)
    assert composed.critical == pytest.approx((1.2 + 0.2 + 0.2) / 2)
    with_an_empty_one = two.model_copy(update={"starts": (0, 0, 2, 3)})
    assert compose(with_an_empty_one, TIMES, made.CACHE).critical == pytest.approx((1.2 + 0.2 + 0.2) / 4)


def test_a_brick_that_a_model_has_often_takes_the_memory_of_one():
    model, times = made.model(*[0] * 100_000), (Time(hot=(1.0,) * 100),)
    tracemalloc.start()
    composed = compose(model, times, made.CACHE)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert composed.sequential.value == pytest.approx(100)
    assert most < 20 << 20


def test_a_brick_without_a_time_is_counted_and_not_added():
    composed = compose(made.model(1, 2, 2), TIMES, made.CACHE)
    assert composed.missing == 2  # steps, of one brick
    assert composed.sequential.value == pytest.approx(0.2)
    nothing = compose(made.model(2), TIMES, made.CACHE)
    assert (nothing.sequential.value, nothing.critical, nothing.hot) == (None, None, None)


def test_the_command_prints_what_it_composed(tmp_path, capsys):
    file = tmp_path / "timings.json"
    record.write(made.timings(*TIMES, models=(made.model(0, 1, 2),)), file)
    assert main(["compose", str(file), "model=NET", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["models"]
    assert found["ms"] == pytest.approx(1.4)
    assert found["steps without a time"] == 1
    assert main(["compose", str(file)]) == 0
    assert "1 steps have no time and are in no sum: refused" in capsys.readouterr().out


def test_nothing_of_a_strangers_timings_is_markup_or_reaches_the_terminal(tmp_path, capsys):
    strange = "[/b]\x1b[2J"
    named = dict.fromkeys(("system", "framework", "precision", "threads", "date"), strange)
    model = made.model(0).model_copy(update={"conditions": made.CONDITIONS.model_copy(update={"model": strange})})
    record.write(made.timings(*TIMES, models=(model,)).model_copy(update=named), tmp_path / "timings.json")
    assert main(["compose", str(tmp_path / "timings.json")]) == 0
    shown = capsys.readouterr().out
    assert "[/b]\\x1b[2J infer [/b]\\x1b[2J on hw=[/b]" in shown
    assert "\x1b" not in shown


def test_the_owner_alone_composes_private_bricks(tmp_path, capsys):
    file, key = tmp_path / "timings.json", tmp_path / "key.json"
    record.write(made.timings(*TIMES), file)
    with pytest.raises(UserError, match="with key=FILE"):
        main(["compose", str(file)])
    record.write(Key(bricks=3, decoys=1, models=(made.model(0, 1, 1),)), key)
    assert main(["compose", str(file), f"key={key}", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["models"]
    assert found["ms"] == pytest.approx(1.6)
    record.write(Key(bricks=4, decoys=1, models=(made.model(0),)), key)
    with pytest.raises(UserError, match="of 4 bricks"):
        main(["compose", str(file), f"key={key}"])


def test_a_key_to_other_bricks_is_refused(tmp_path):
    file, key = tmp_path / "timings.json", tmp_path / "key.json"
    record.write(made.timings(*TIMES).model_copy(update={"digest": "a"}), file)
    record.write(Key(bricks=3, decoys=1, digest="b", models=(made.model(0, 1, 1),)), key)
    with pytest.raises(UserError, match="is of other bricks than"):
        main(["compose", str(file), f"key={key}"])


def test_a_machine_that_was_busy_when_the_bricks_were_made_is_told_to_whoever_has_their_times(
    tmp_path, monkeypatch, capsys
):
    bricks, timings = tmp_path / "bricks.json", tmp_path / "timings.json"
    with monkeypatch.context() as busy:
        busy.setattr("suite.measure.noise.before", lambda *_: Environment(("somebody worked",), {}))
        assert main(["make", f"models={made.own(tmp_path, made.TORCH)}", "size=16", f"out={bricks}"]) == 0
    assert "NOISY  somebody worked" in capsys.readouterr().out
    assert main(["measure", str(bricks), f"out={timings}", "repeats=1"]) == 0
    assert main(["compose", str(timings)]) == 0
    assert capsys.readouterr().out.count("NOISY  when the bricks were made: somebody worked") == 2
