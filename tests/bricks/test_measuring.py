"""In what order bricks are run, and what the cache keeps."""

from suite.bricks import measuring
from suite.bricks.composing import compose
from suite.harness.implementation import Device
from tests.bricks import made

ROUNDS = 3


class Noting:
    """A framework whose bricks note in `ran` how many numbers they are given."""

    def __init__(self):
        self.ran = []

    def runner(self, brick, device, mode, room):
        return NotingRunner(brick.tensors[0].elements, self.ran)


class NotingRunner:
    bytes = 0

    def __init__(self, size, ran):
        self.size, self.ran = size, ran

    def prepare(self, twin=False):
        pass

    def run(self):
        self.ran.append(self.size)
        return 1e-6

    def done(self):
        pass


def test_neighbours_are_run_in_turn_once_off_the_clock_and_once_on_it():
    """The code of one lies in the caches as in a model, where the others come in between."""
    eight = measuring.WINDOW
    sizes = list(range(1, 4 * eight + 1))
    noting = Noting()
    found, _ = measuring.measure(
        noting, [made.relu(size) for size in sizes], Device("cpu", "fp32"), "infer", ROUNDS, lambda _: None
    )
    eights = [sizes[at : at + eight] for at in range(0, len(sizes), eight)]
    ran = [noting.ran[at : at + 2 * eight] for at in range(0, len(noting.ran), 2 * eight)]
    assert sorted(ran) == sorted(each + each for each in eights for _ in range(ROUNDS))
    assert ran != [each + each for _ in range(ROUNDS) for each in eights]
    assert all(len(each.hot) == ROUNDS for each in found)


def test_a_single_round_is_taken_with_cold_weights_too():
    found, _ = measuring.measure(Noting(), [made.relu()], Device("cpu", "fp32"), "infer", 1, lambda _: None)
    assert [(len(each.hot), len(each.cold)) for each in found] == [(1, 1)]


def test_an_accelerator_whose_caches_nothing_empties_has_no_cold_times(monkeypatch):
    monkeypatch.setattr(measuring, "room_of", lambda kind: 1e6)
    found, _ = measuring.measure(Noting(), [made.relu()], Device("gpu", "fp32"), "infer", ROUNDS, lambda _: None)
    assert [(len(each.hot), len(each.cold)) for each in found] == [(ROUNDS, 0)]
    composed = compose(made.model(0), found, made.CACHE)
    assert (composed.hot, composed.cold, composed.share) == (composed.sequential.value, None, None)


def test_a_brick_for_which_the_device_has_no_memory_does_not_stop_the_others(monkeypatch):
    class Small(Noting):
        def runner(self, brick, device, mode, room):
            if brick.tensors[0].elements > 10:
                raise RuntimeError(f"can't allocate memory; room for {room}")
            return super().runner(brick, device, mode, room)

    monkeypatch.setattr(measuring, "room_of", lambda kind: {"gpu": 1e6}[kind])
    bricks = [made.relu(size) for size in (8, 16)]
    found, _ = measuring.measure(Small(), bricks, Device("gpu", "fp32"), "infer", ROUNDS, lambda _: None)
    assert [len(each.hot) for each in found] == [ROUNDS, 0]
    assert found[1].why == "out of memory: can't allocate memory; room for 100000"


def test_of_more_memory_no_less_is_missed_by_the_cache():
    found = measuring.largest_cache()
    assert found.size == measuring.cache_bytes()
    assert list(found.missed) == sorted(found.missed)
    assert (found.share(0), found.share(100 * found.size)) == (found.missed[0], 1)
