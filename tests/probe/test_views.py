"""What is made of a probe that was kept: a page, a comparison, the same again."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from suite.compare import main as compare
from suite.errors import UserError
from suite.plots import treemap
from suite.probe import comparing, page, pictures, record, showing
from suite.probe.__main__ import main
from suite.probe.record import Cell, Conditions, Figure, Probe, Row
from suite.probe.tracking import metrics, title

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m"


def cell(mean: float, width: float = 1.0, **conditions) -> Cell:
    return Cell(
        conditions=Conditions(
            **{"model": "vgg11", "framework": "torch", "mode": "train", "precision": "fp32"} | conditions
        ),
        figures={"samples/s": Figure(value=mean, unit="1/s", low=mean - width, high=mean + width)},
        columns={"share": "%"},
        rows=[Row(name="conv", values={"share": 60.0}), Row(name="rest", values={"share": None})],
    )


def probe(*cells: Cell, **changed) -> Probe:
    values = {
        "level": "throughput", "suite_version": "0", "date": "2026-01-01T00:00:00Z", "system": "cpu",
        "machine": {"cpu_model": "a", "logical_cpus": 2}, "software": {"torch": "1"}, "environment": {}, "repeats": 5,
        "seconds": 1.0, "noisy": [], "cells": list(cells),
    }  # fmt: skip
    return Probe(**values | changed)


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [(10, 20, "B is higher"), (11.5, 10, "B is lower"), (10, 11.4, "noise")],
)
def test_more_than_the_intervals_facing_halves_is_a_difference(a, b, says):
    """Each reaches 1 to either side, of a difference 1.41."""
    (found,) = comparing.compare(probe(cell(a)), probe(cell(b)))
    assert found.says == says
    assert found.ratio == b / a


def test_the_halves_that_do_not_face_each_other_weigh_nothing():
    low, high = Figure(value=10.0, unit="", low=2.0, high=11.0), Figure(value=12.0, unit="", low=11.5, high=20.0)
    assert comparing.Compared("cell", "figure", low, high).says == "B is higher"
    assert comparing.Compared("cell", "figure", high, low).says == "B is lower"


@pytest.mark.parametrize(
    ("a", "b", "says", "ratio"),
    [
        (10.0, 10.0, "the same", 1.0),
        (10.0, 11.0, "no intervals", 1.1),
        (None, 11.0, "not known of both", None),
        (0.0, 11.0, "no intervals", None),
        (-5.0, 11.0, "no intervals", None),
        (10.0, -1.0, "no intervals", None),
        (10.0, 0.0, "no intervals", 0.0),
    ],
)
def test_of_values_without_intervals_only_those_that_are_the_same_say_something(a, b, says, ratio):
    found = comparing.Compared("cell", "figure", *(Figure(value=each, unit="") for each in (a, b)))
    assert (found.says, found.ratio) == (says, ratio)


def test_like_cells_are_compared_and_others_left_out():
    found = comparing.compare(probe(cell(1, batch=1), cell(2, batch=2)), probe(cell(4, batch=2), cell(9, batch=3)))
    assert [each.ratio for each in found] == [2]


def test_what_cannot_be_compared_is_told():
    with pytest.raises(UserError, match="no cell of A"):
        comparing.compare(probe(cell(1, batch=1), cell(1, batch=2)), probe(cell(1, batch=3)))
    with pytest.raises(UserError, match="at level phases"):
        comparing.compare(probe(cell(1)), probe(cell(1), level="phases"))


def test_what_decided_is_told():
    found = comparing.differences(probe(cell(1)), probe(cell(1, framework="tensorflow"), software={"torch": "2"}))
    assert ("software.torch", "1", "2") in found
    assert ("framework", "torch", "tensorflow") in found


def test_frameworks_stand_side_by_side():
    def timed(framework: str, **times: float) -> Cell:
        conditions = Conditions(framework=framework, mode="train", precision="fp32", kernels="quick")
        rows = [Row(name=name, values={"us": us, "from": us, "to": us}) for name, us in times.items()]
        return Cell(conditions=conditions, columns=dict.fromkeys(("us", "from", "to"), ""), rows=rows)

    found = comparing.beside([timed("torch", a=1.0, b=2.0), timed("tensorflow", b=3.0, a=4.0, c=5.0)])
    assert [(name, [each.value for each in figures]) for name, figures in found] == [
        ("a, us", [1.0, 4.0]), ("b, us", [2.0, 3.0])
    ]  # fmt: skip


def test_what_is_not_compared_is_told_and_every_difference_whole(tmp_path, capsys):
    failed = cell(1, batch=2).model_copy(update={"figures": {}, "error": "out of memory"})
    paths = [f"{'/opt' * 20}/{name}" for name in "ab"]
    a = probe(cell(10, batch=1), cell(1, batch=2), cell(1, batch=3), environment={"path": paths[0]})
    b = probe(cell(10, batch=1), failed, environment={"path": paths[1]}, noisy=["others", "steal"])
    record.write(a, tmp_path / "a")
    record.write(b, tmp_path / "b")
    assert compare([str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["left out"] == [
        "only A holds vgg11 torch train fp32 batch 3",
        "B could not measure vgg11 torch train fp32 batch 2: out of memory",
    ]
    assert told["differences"] == [["environment.path", *paths], ["noisy", "no", "others; steal"]]
    assert compare([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    shown = capsys.readouterr().out
    assert all(each in shown for each in (*told["left out"], "others; steal"))


def test_the_command_compares_what_was_kept(tmp_path, capsys):
    for name, mean in (("a", 10), ("b", 20)):
        record.write(probe(cell(mean)), tmp_path / name)
    assert compare([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "B is higher" in capsys.readouterr().out
    assert compare([str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"][0]["ratio"] == 2


def test_nothing_of_a_strangers_probe_is_markup_or_reaches_the_terminal(tmp_path, capsys):
    strange = "[/b]\x1b[2J"
    hostile = cell(1, implementation=strange)
    figures = {strange: Figure(value=1.0, unit=strange)}
    changed = {"figures": figures, "columns": {"share": "%", strange: strange}, "notes": [strange]}
    hostile = hostile.model_copy(update=changed)
    other = hostile.model_copy(update={"conditions": hostile.conditions.model_copy(update={"batch": 1})})
    for name, system in (("a", strange), ("b", "cpu")):
        record.write(probe(hostile, other, system=system, noisy=[strange]), tmp_path / name)
    assert compare([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    showing.show(Console(markup=False), record.read(tmp_path / "a"))
    shown = capsys.readouterr().out
    assert "[/b]\\x1b[2J" in shown
    assert "\x1b" not in shown


def test_a_page_is_self_contained_and_everything_escaped():
    made = cell(1).model_copy(update={"notes": [HOSTILE], "rows": [Row(name=HOSTILE, values={"share": 3.0})]})
    failed = Cell(conditions=Conditions(**{**made.conditions.model_dump(), "model": HOSTILE}), error=HOSTILE)
    text = page.html(
        probe(made, failed, cell(2, batch=2), noisy=[HOSTILE], machine={"cpu_model": HOSTILE, "logical_cpus": 1})
    )
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert not re.search(r"(src|href)=", text)
    assert "60" in page.html(probe(cell(1)))
    assert "table.sortable" in text.partition("<script>")[2]


def test_cells_that_differ_late_in_a_long_name_are_apart_in_mlflow():
    found = metrics(probe(*(cell(batch, model="a-long-name" * 10, batch=batch) for batch in (1, 2))))
    assert sorted(found.values()) == [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]
    assert all(len(key) <= 250 for key in found)


def test_a_probe_of_many_models_has_a_name_that_every_store_takes():
    many = probe(*(cell(1, model=f"model-{number}") for number in range(99)))
    assert title(many).startswith("throughput of model-0, model-1, ")
    assert len(title(many)) == 250


def layers(**conditions) -> Cell:
    """A cell of level=layers, of layers with hostile names."""
    rows = [
        Row(name=f"{name}{HOSTILE}", values={"forward": 1.0, "backward": 2.0, "other": 0.0, "share": share,
            "GFLOP": 3.0, "MB": 10.0, "FLOP/B": 300.0, "bound": bound})
        for name, share, bound in (("head", 70.0, "compute"), ("norm", 30.0, HOSTILE))
    ]  # fmt: skip
    columns = dict.fromkeys(rows[0].values, "")
    roof = {"product": Figure(value=2000.0, unit="GFLOP/s"), "copy": Figure(value=20.0, unit="GB/s")}
    made = cell(1, **conditions)
    return made.model_copy(update={"rows": rows, "columns": columns, "figures": {**made.figures, **roof}})


def test_pictures_are_drawn_to_scale_and_escaped():
    drawn = pictures.roofline(layers())
    assert [dot.text.rpartition(": ")[2] for dot in drawn.dots] == [
        "1,000 GFLOP/s at 300 FLOP/B, 70 % of the time",
        "1,000 GFLOP/s at 300 FLOP/B, 30 % of the time",
    ]
    tops = [float(point.partition(",")[2]) for point in drawn.roof.split()]
    assert tops[1] == tops[2] < drawn.dots[0].y  # half of what the product reaches lies below the flat part
    head, norm = (area.tile.width * area.tile.height for area in pictures.areas(layers()))
    assert head / norm == pytest.approx(70 / 30)
    text = page.html(probe(layers(), layers(mode="infer"), layers(batch=2), layers(batch=4)))
    for aria in ("Roofline", "Treemap", "Parts of each cell", "samples/s, 1/s over batch"):
        assert f'aria-label="{aria}' in text
    assert "training 1 times inference" in text
    assert "<script>alert" not in text
    assert not re.search(r"(src|href)=", text)


@pytest.mark.parametrize("interval_of", ["share", "us"])
def test_a_bar_has_the_interval_of_its_share_and_not_of_a_time(interval_of):
    columns = {interval_of: "", "from": "", "to": "", "share": "%"}
    values = {"us": 5000.0, "from": 40.0, "to": 80.0, "share": 60.0}
    made = cell(1.0).model_copy(update={"columns": columns, "rows": [Row(name="conv", values=values)]})
    drawn = page.html(probe(made)).split("</title></rect>", 1)[1].split("</svg>", 1)[0]
    assert ('class="interval"' in drawn) == (interval_of == "share")


def test_parts_stand_beside_each_other_by_their_size():
    parts = [Row(name=name, values={"MB": size}) for name, size in (("weights", 1.0), ("saved", 3.0))]
    one = cell(1).model_copy(update={"rows": parts, "columns": {"MB": ""}})
    other = cell(1, mode="infer").model_copy(update={"rows": parts[:1], "columns": {"MB": ""}})
    names, unit, (first, second) = pictures.stacks(probe(one, other, level="memory"))
    assert (names, unit) == (["weights", "saved"], "MB")
    assert [piece.width for piece in first.pieces] == [160, 480]
    assert [piece.width for piece in second.pieces] == [160]
    _, unit, (whole, _) = pictures.stacks(probe(layers(), layers(mode="infer"), level="layers"))
    assert unit == "%"  # of the time, not the bytes that layers move, which are as many of both
    assert [piece.width for piece in whole.pieces] == [448, 192]


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40))
def test_a_treemap_fills_its_frame_by_the_shares(values):
    made = treemap.tiles(sorted(values, reverse=True), 640, 260)
    for value, tile in zip(sorted(values, reverse=True), made, strict=True):
        assert tile.width * tile.height == pytest.approx(value / sum(values) * 640 * 260, abs=0.01)
        assert tile.x + tile.width <= 640.001
        assert tile.y + tile.height <= 260.001


def test_the_same_again_says_what_differs(tmp_path, capsys):
    words = ["level=throughput", "model=squeezenet1_1", "size=32", "batch=2", "repeats=3", "seconds=0.02", "hw=cpu"]
    assert main([*words, "mlflow=false", f"out={tmp_path / 'first'}"]) == 0
    html, again = tmp_path / "page.html", f"manifest={tmp_path / 'first'}"
    assert main([again, f"out={tmp_path / 'second'}", "mlflow=false", "--html", str(html)]) == 0
    shown = capsys.readouterr().out
    assert "which says" in shown
    assert "machine.accelerators" not in shown  # which are alike
    first, second = (record.read(tmp_path / name) for name in ("first", "second"))
    assert [each.conditions for each in first.cells] == [each.conditions for each in second.cells]
    assert (first.repeats, first.seconds, first.level) == (second.repeats, second.seconds, second.level)
    assert "squeezenet1_1" in html.read_text()
    with pytest.raises(UserError, match="leave out batch"):
        main([again, "batch=3"])
