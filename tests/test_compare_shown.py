"""What `python -m suite.compare A B` shows of two sides, beside their figures."""

from types import SimpleNamespace

import pytest

from suite.compare import main
from suite.results.comparison import compare
from tests.results.maker import entry, run


@pytest.fixture
def shown(monkeypatch, capsys):
    """Return what is shown of two results."""

    def show(a, b):
        sides = {"a": a, "b": b}
        monkeypatch.setattr(
            "suite.compare.read", lambda source, *_: SimpleNamespace(entries=[sides[source.folder.name]])
        )
        assert main(["a", "b"]) == 0
        return capsys.readouterr().out

    return show


@pytest.mark.parametrize(("name", "a", "b"), [("seeds", "drawn by T", "drawn"), ("clock", "witnessed", "its own")])
def test_each_side_has_its_own_seeds_and_clock(shown, name, a, b):
    (row,) = [line for line in shown(entry(**{name: a}), entry()).splitlines() if line.startswith(f"│ {name}")]
    assert [cell.strip() for cell in row.split("│")[2:4]] == [a, b]


def test_a_ratio_stands_beside_its_interval(shown):
    a, b = (entry(runs=tuple(run(at, seed=int(at)) for at in times)) for times in ((10.0,) * 3, (15.0,) * 3))
    (row,) = [line for line in shown(a, b).splitlines() if line.startswith("│ time to quality")]
    assert [cell.strip() for cell in row.split("│")[2:7]] == ["10.0 s", "15.0 s", "1.5", "1.5 to 1.5", "B is higher"]


def test_times_are_multiplied_as_the_score_is_and_samples_are_not():
    (made,) = compare([entry(normalisation=1.5)], [entry()])
    ratios = {figure.name: figure.ratio for figure in made.figures}
    assert (ratios["time to quality"], ratios["samples to quality"]) == (pytest.approx(1 / 1.5), 1.0)


def test_a_remark_stands_beside_its_side(shown):
    one_seed = entry(runs=tuple(run(at, seed=3) for at in (10.0, 11.0, 12.0)))
    text = shown(one_seed, entry())
    assert "A: ONE SEED\n" in text
    assert "B: " not in text.partition("A: ONE SEED")[2]


def test_differences_that_are_too_many_to_show_are_counted(shown):
    a, b = (entry(decided={f"config.{at}": value for at in range(43)}) for value in "ab")
    text = shown(a, b)
    assert "config.39 " in text
    assert "config.40 " not in text
    assert "\n3 more differences: --json lists all\n" in text
