"""Where curves, the reference's band, the target and bars stand."""

import pytest

from suite.plots import charts
from suite.plots.charts import BOTTOM, HEIGHT, KINDS, LEFT, RIGHT, TOP, WIDTH, Group, bars, chart
from suite.record.history import History, Interval, Point
from suite.results.curves import AXES


def places(polygon):
    return [tuple(map(float, place.split(","))) for place in polygon.split()]


def curve(*qualities):
    return History(points=tuple(Point(10.0 * at, 100 * at, quality) for at, quality in enumerate(qualities, 1)))


def test_curves_and_target_stand_within_the_drawing():
    drawn = chart(Group("", "accuracy", 0.9, [("a", curve(0.2, 0.5)), ("b", curve(0.1, 0.4, 0.3))]), "samples")
    a, b = (places(each.points) for each in drawn.curves)
    across = (WIDTH - RIGHT - LEFT) / (1.05 * 300)
    assert [x for x, _ in b] == pytest.approx([LEFT + across * samples for samples in (100, 200, 300)], abs=0.01)
    assert [x for x, _ in a] == [x for x, _ in b][:2]
    assert (drawn.x_ticks[0].at, drawn.x_ticks[0].label) == (LEFT, "0")
    heights = [drawn.target, a[1][1], b[1][1], b[2][1], a[0][1], b[0][1]]  # pixels grow downwards
    assert heights[0] > TOP
    assert heights == sorted(heights)
    assert heights[-1] < HEIGHT - BOTTOM
    assert [each.last for each in drawn.curves] == [a[-1], b[-1]]


def test_a_target_below_all_curves_is_drawn_too():
    drawn = chart(Group("", "wer", 0.1, [("a", curve(0.5, 0.2))]), "samples")
    assert places(drawn.curves[0].points)[-1][1] < drawn.target < HEIGHT - BOTTOM


def test_the_band_goes_along_the_lowest_qualities_and_back_along_the_highest():
    reference = [[(100, 0.3), (400, 0.8)], [(100, 0.1), (400, 0.6)]]
    group = Group("", "accuracy", None, [("a", curve(0.2, 0.5))], reference)
    drawn = chart(group, "samples")
    first, second, third, fourth = places(drawn.band)
    (at, _), _ = places(drawn.curves[0].points)
    assert first[0] == fourth[0] == at < second[0] == third[0] <= WIDTH - RIGHT
    assert HEIGHT - BOTTOM > first[1] > fourth[1] > second[1] > third[1] > TOP
    over_time = chart(group, "seconds")
    assert over_time.band == ""
    assert over_time.y_ticks == chart(Group("", "accuracy", None, group.runs), "seconds").y_ticks


def test_evaluations_of_unknown_samples_stand_over_time_alone():
    run = History(points=(Point(10.0, 100, 0.1), Point(20.0, None, 0.2)))
    lengths = [len(places(chart(Group("", "", None, [("a", run)]), axis).curves[0].points)) for axis in AXES]
    assert lengths == [1, 2]
    assert chart(Group("", "", None, [("a", History(points=run.points[1:]))]), "samples") is None


def test_runs_of_one_name_share_their_kind_of_line():
    runs = [(name, curve(0.1)) for name in ("b", "a", "b")]
    assert [each.kind for each in chart(Group("", "", None, runs), "samples", ["a", "b"]).curves] == [1, 0, 1]
    many = chart(Group("", "", None, runs * 3), "samples").curves
    assert [each.kind for each in many] == [*range(KINDS), *range(9 - KINDS)]


def test_bars_of_all_runs_are_to_one_scale():
    runs = [
        ("a", History(intervals=(Interval("training", 10.0, 20.0), Interval("evaluation", 20.0, 20.001)))),
        ("b", History(intervals=(Interval("training", 15.0, 50.0),))),
        ("c", History()),
    ]
    (a, _, (training, evaluation)), (b, _, (longest,)) = bars(Group("", "", None, runs))
    assert (a, b) == ("a", "b")
    assert (training.x, training.width) == (0, WIDTH / 4)
    assert (evaluation.x, evaluation.width) == (WIDTH / 4, 0.5)
    assert (longest.x, longest.x + longest.width) == (WIDTH / 8, WIDTH)
    assert training.title == "training 10.0 to 20.0 s"
    assert bars(Group("", "", None, runs[2:])) == []


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0.0", "0.5", "1.0"]),
        (0, 12, ["0", "5", "10"]),
        (0.981, 0.986, ["0.982", "0.984", "0.986"]),
        (0, 3e9, ["0", "1e+09", "2e+09", "3e+09"]),
    ],
)
def test_ticks_are_round(low, high, labels):
    assert [tick.label for tick in charts.Scale(low, high, 0, 100).ticks()] == labels
