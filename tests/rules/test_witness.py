"""What stamps show, and to whom: by a run's evidence, forged and honest, and certificates that the reviewer names."""

import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.errors import UserError
from suite.record import evidence
from suite.results.reading import Source, read
from suite.review.__main__ import main
from suite.review.model import report
from suite.rules.verdict import review
from suite.rules.witness import Stamp, roots_of, vouched_for
from tests.rules import evidence_maker
from tests.rules.evidence_maker import isolate, write_run
from tests.rules.found import ALWAYS, rules_of
from tests.rules.mutants.witness import authority, witnessed
from tests.witness_server import Authority, needs_openssl

pytestmark = needs_openssl
STOP = evidence.STAMPS[keys.RUN_STOP]


def judged(run, root=None):
    """The verdict and what is said by timing.8, with these certificates."""
    made = report(run.folder, witness_roots=root or authority().root)
    assert rules_of(made.findings, but=ALWAYS) <= {"timing.8"}
    return made.verdict, [f.expected for f in made.findings if f.rule == "timing.8"]


def clock_of(folder):
    (entry,) = read(Source(folder), witness_roots=authority().root).entries
    return entry.clock


def test_a_witnessed_run_passes_and_is_marked(run):
    witnessed(run)
    assert judged(run) == ("pass", [])
    assert clock_of(run.folder) == "witnessed"


def test_a_run_that_no_witness_was_asked_for_is_not_marked(run):
    assert clock_of(run.folder) == "its own"


@pytest.mark.parametrize(("second", "clock"), [(True, "witnessed"), (False, "its own")])
def test_a_result_is_marked_only_if_each_of_its_runs_was_witnessed(tmp_path, monkeypatch, second, clock):
    isolate(monkeypatch, tmp_path)
    for index, asked in ((1, True), (2, second)):
        write_run(tmp_path / "result" / f"run_{index}", index, 2, authority=authority() if asked else None)
    assert clock_of(tmp_path / "result") == clock


def test_without_certificates_nobody_vouches(run, capsys):
    witnessed(run)
    made = review(run.folder)
    notes = [f for f in made.findings if f.rule == "timing.8"]
    assert {(f.severity, f.expected) for f in notes} == {("note", "an authority that vouches for the stamp")}
    assert (made.verdict, read(Source(run.folder)).entries[0].clock) == ("pass", "its own")
    assert main([str(run.folder), "--witness-roots", str(authority().root)]) == 0
    assert "timing.8" not in capsys.readouterr().out


def test_an_authority_of_one_s_own_does_not_pass(run, tmp_path):
    witnessed(run)
    run.stamp(Authority(tmp_path / "own"))
    verdict, said = judged(run)
    assert (verdict, set(said)) == ("fail", {"a signature that the reviewer's certificates vouch for"})


def test_a_signature_that_was_moved_to_another_time_does_not_pass(run):
    """One digit of the time in the stamp of run_stop."""
    witnessed(run)
    content = (run.folder / STOP).read_bytes()
    at = re.search(rb"\d{14}Z", content).end() - 2
    (run.folder / STOP).write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    run.seal()
    assert judged(run)[0] == "fail"


@pytest.mark.parametrize("off", [-2, 0, 2])
def test_stamps_may_differ_from_the_log_by_two_seconds(run, off):
    witnessed(run)
    run.stamp(authority(), run_stop=off)
    assert judged(run) == ("pass", [])


@pytest.mark.parametrize(("off", "verdict"), [(5, "pass"), (7, "fail")])
def test_in_ten_hours_a_clock_may_gain_some_seconds_more(run, monkeypatch, off, verdict):
    monkeypatch.setattr(evidence_maker, "RUN_MS", 36_000_000)
    witnessed(run)
    run.stamp(authority(), run_stop=off)
    assert judged(run)[0] == verdict


@pytest.mark.parametrize("off", [-3600, 5, 10**8])
def test_a_clock_that_is_set_wrong_is_a_note(run, off):
    witnessed(run)
    run.stamp(authority(), run_start=off, run_stop=off)
    verdict, (said,) = judged(run)
    assert verdict == "pass"
    assert said.startswith("run_start at ")


def test_a_stamp_that_was_not_had_is_a_note(run):
    witnessed(run)
    (run.folder / STOP).unlink()
    run.edit(logkeys.WITNESS, lambda record: record["metadata"].update(run_stop=False))
    assert judged(run) == ("pass", ["a time-stamp of run_stop"])
    assert clock_of(run.folder) == "its own"


def test_stamps_too_large_to_be_any_are_not_read(run):
    witnessed(run)
    (run.folder / STOP).write_bytes(b"\0" * (1 << 20))
    assert "package.1" in rules_of(review(run.folder).findings)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_stamp_are_told(content):
    with pytest.raises(ValueError, match="time-stamp"):
        Stamp.read(content)
    assert not vouched_for(content, roots_of(authority().root))


@given(st.data())
def test_a_changed_stamp_is_never_a_traceback_nor_another_time(data):
    sound = stamp()
    at = data.draw(st.integers(0, len(sound) - 1))
    content = sound[:at] + data.draw(st.binary(max_size=3)) + sound[at + data.draw(st.integers(0, 4)) :]
    try:
        made = Stamp.read(content)
    except ValueError:
        assert not vouched_for(content, roots_of(authority().root))
    else:
        assert made == Stamp.read(sound) or not vouched_for(content, roots_of(authority().root))


def stamp():
    path = authority().folder / "sound.tsr"
    if not path.exists():
        path.write_bytes(authority().stamp(b"a line", 1_700_000_000))
    return path.read_bytes()


@pytest.mark.parametrize(
    "content", [None, b"", b"\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]
)
def test_certificates_that_are_none_are_one_line(run, tmp_path, content):
    path = tmp_path / "roots.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match="--witness-roots") as error:
        main([str(run.folder), "--witness-roots", str(path)])
    assert "\n" not in str(error.value)


def test_a_link_is_no_stamp(run, tmp_path):
    witnessed(run)
    shutil.move(run.folder / STOP, tmp_path / "elsewhere")
    (run.folder / STOP).symlink_to(tmp_path / "elsewhere")
    assert "package.1" in rules_of(review(run.folder).findings)
