from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.measure.energy import energy
from suite.measure.samples import HEADER, HEADER_OF_NODES, Sample, SamplesError, format_row, read_samples

T0 = 1_700_000_000_000


def rows(
    *joules: float | None, step_ms: int = 1000, cpu: tuple[float | None, ...] = (), busy: float | None = None
) -> list[Sample]:
    cpu = cpu or (None,) * len(joules)
    return [
        Sample(T0 + i * step_ms, accelerator, package, None, busy, 0.0, 0.0)
        for i, (accelerator, package) in enumerate(zip(joules, cpu, strict=True))
    ]


def test_counters_are_differences_interpolated_at_the_ends() -> None:
    used = energy(rows(1000, 1100, 1300, 1400), T0 + 500, T0 + 2500, ceiling_w=9999)
    assert used.joules == pytest.approx(50 + 200 + 50)
    assert (used.source, used.covers, used.interval_s) == ("nvml", ("accelerator",), 1.0)
    assert used.coverage == pytest.approx(1)
    assert used.mean_w == pytest.approx(150)


def test_accelerators_and_cpus_add_up() -> None:
    used = energy(rows(0, 300, 600, cpu=(5.0, 15.0, 25.0)), T0, T0 + 2000, None)
    assert used.joules == pytest.approx(620)
    assert (used.source, used.covers) == ("nvml+rapl", ("accelerator", "cpu"))
    assert energy(rows(None, None, cpu=(1.0, 2.0)), T0, T0 + 1000, None).source == "rapl"


def test_a_counter_that_wraps_is_not_counted_and_lowers_coverage() -> None:
    used = energy(rows(100, 200, 50, 150, 250), T0, T0 + 4000, None)
    assert used.joules == pytest.approx(300)
    assert used.coverage == pytest.approx(0.75)
    assert used.mean_w == pytest.approx(100)


def test_coverage_is_that_of_the_counter_that_was_read_least() -> None:
    used = energy(rows(0, 300, 600, cpu=(5.0, 15.0, None)), T0, T0 + 2000, None)
    assert used.coverage == pytest.approx(0.5)
    assert used.mean_w == pytest.approx(300 + 10)


def test_a_pause_is_not_counted_and_lowers_coverage() -> None:
    before, after = rows(0, 100), [Sample(T0 + 60_000, 9000, None, None, None, None, None)]
    after.append(after[0]._replace(time_ms=T0 + 61_000, accelerator_j=9100))
    used = energy([*before, *after], T0, T0 + 61_000, None)
    assert used.joules == pytest.approx(200)
    assert used.coverage == pytest.approx(2 / 61)


def test_time_without_samples_lowers_coverage() -> None:
    used = energy(rows(0, 100, 200), T0 - 1000, T0 + 3000, None)
    assert used.joules == pytest.approx(200)
    assert used.coverage == pytest.approx(0.5)


def test_without_counters_the_estimate_says_so() -> None:
    used = energy(rows(None, None, None, busy=0.5), T0, T0 + 2000, ceiling_w=100)
    assert used.joules == pytest.approx(100)
    assert (used.source, used.covers, used.coverage) == ("estimated", (), 1)


@pytest.mark.parametrize(
    ("samples", "ceiling"),
    [([], 100.0), (rows(5), 100.0), (rows(None, None, busy=0.5), None), (rows(None, None), 100.0)],
)
def test_what_nobody_measured_is_none(samples: list[Sample], ceiling: float | None) -> None:
    used = energy(samples, T0, T0 + 1000, ceiling)
    assert (used.joules, used.source, used.interval_s, used.mean_w, used.coverage) == (None, None, None, None, 0)


def test_the_interval_is_of_the_samples_that_the_energy_rests_on() -> None:
    measured = rows(None, None, step_ms=250, busy=0.5)
    restart = [measured[0]._replace(time_ms=T0 + 5000, utilisation=None)]
    used = energy([*measured, *restart], T0, T0 + 5000, ceiling_w=100)
    assert used.interval_s == 0.25
    assert used.coverage == pytest.approx(0.05)


def outcome(path: Path) -> list[Sample] | SamplesError:
    try:
        return read_samples(path)
    except SamplesError as error:
        return error


joules = st.none() | st.floats(0, 1e11).map(lambda value: round(value, 3))
fraction = st.none() | st.floats(0, 1).map(lambda value: round(value, 4))


def samples_of_nodes(nodes: int) -> st.SearchStrategy[list[Sample]]:
    node = st.integers(0, nodes - 1)
    sample = st.builds(Sample, st.integers(0, 10**13), joules, joules, joules, fraction, fraction, fraction, node)
    listed = st.lists(sample, max_size=20, unique_by=lambda sample: (sample.node, sample.time_ms))
    return listed.map(lambda found: sorted(found, key=lambda sample: sample.time_ms))


samples = samples_of_nodes(1)


@given(st.data(), st.sampled_from([1, 3]))
def test_samples_survive_the_file(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, nodes: int) -> None:
    written = data.draw(samples_of_nodes(nodes))
    path = tmp_path_factory.mktemp("power") / "power.csv"
    rows = [HEADER if nodes == 1 else HEADER_OF_NODES, *(format_row(sample, nodes) for sample in written)]
    path.write_text("".join(line + "\n" for line in rows) + "12,torn")
    assert read_samples(path) == written


def test_energy_of_nodes_is_their_sum_and_covered_as_the_worst_is() -> None:
    leader = rows(None, None, step_ms=1000, busy=0.5)
    other = [sample._replace(node=1) for sample in rows(None, None, step_ms=1000, busy=0.25)]
    until = leader[-1].time_ms
    alone = energy(leader, T0, until, ceiling_w=100)
    both = energy([*leader, *other], T0, until, ceiling_w=100, nodes=2)
    assert alone.joules is not None
    assert both.joules == pytest.approx(1.5 * alone.joules)
    assert both.mean_w == pytest.approx(75)
    assert both.coverage == alone.coverage
    assert energy(leader, T0, until, ceiling_w=100, nodes=2).coverage == 0
    assert energy([*leader, *other], T0, until, ceiling_w=100) == alone  # a file may tell of nodes that there were not
    assert energy(leader, T0, until, ceiling_w=100, nodes=10**12) == energy(leader, T0, until, ceiling_w=100, nodes=2)


def test_a_counter_that_one_node_lacks_does_not_cover_the_run() -> None:
    leader = rows(0, 10, 20, cpu=(0.0, 5.0, 10.0))
    other = [sample._replace(node=1, accelerator_j=None) for sample in leader]
    both = energy([*leader, *other], T0, T0 + 2000, None, nodes=2)
    assert (both.covers, both.source) == (("cpu",), "nvml+rapl")
    assert both.joules == pytest.approx(40)
    of_three = energy([*leader, *other], T0, T0 + 2000, None, nodes=3)  # of which the last lacks all
    assert of_three.covers == ()


def test_the_interval_is_that_of_the_node_with_the_longest() -> None:
    leader = rows(0, 10, 20, step_ms=1000)
    seldom = [sample._replace(node=1) for sample in rows(0, 20, step_ms=2000)]
    assert energy([*leader, *seldom], T0, T0 + 2000, None, nodes=2).interval_s == 2


@given(samples, st.integers(0, 10**13), st.integers(1, 10**7), st.none() | st.floats(1, 1e5))
def test_any_samples_give_sound_figures(written: list[Sample], start: int, length: int, ceiling: float | None) -> None:
    used = energy(written, start, start + length, ceiling)
    assert 0 <= used.coverage <= 1
    assert (used.joules is None) == (used.source is None) == (used.mean_w is None) == (used.coverage == 0)
    assert used.joules is None or used.joules >= 0


@given(st.binary(max_size=400) | st.text("0123456789.,\n-+eEnainf_ ", max_size=200).map(str.encode))
def test_hostile_content_gives_samples_or_one_error_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("power") / "power.csv"
    for prefix in (b"", HEADER.encode() + b"\n"):
        path.write_bytes(prefix + content)
        found = outcome(path)
        if isinstance(found, SamplesError):
            assert 1 <= found.line <= content.count(b"\n") + 2
        else:
            assert all(later.time_ms > earlier.time_ms for earlier, later in pairwise(found))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("1,,,,,,", "not later"),
        ("2,,,,,,", "not later"),
        ("3,,,,1.5000,,", "above 1"),
        ("3,,,,,,1.5000", "above 1"),
        ("3,-1.000,,,,,", "not a row"),
        ("3,inf,,,,,", "not a row"),
        ("3,,,,,", "not a row"),
        ("3" * 5000, "not a row"),
        ("٣,,,,,,", "not a row"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, problem: str) -> None:
    path = tmp_path / "power.csv"
    path.write_text(f"{HEADER}\n2,,,,,,\n{row}\n")
    with pytest.raises(SamplesError, match=rf"line 3: .*{problem}"):
        read_samples(path)


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match="No such file"):
        read_samples(tmp_path / "power.csv")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(SamplesError, match="symbolic link"):
        read_samples(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SamplesError, match="plain file"):
        read_samples(tmp_path / "pipe")
