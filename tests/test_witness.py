"""`suite.run witness=URL`: an authority stamps begin and end of the clock, or does not, and no run waits for it."""

import json
import os
import shutil
import time

import pytest
from mlperf_logging.mllog import constants as keys

from suite.record.evidence import STAMPS
from suite.run.resuming import stored
from tests.command import eighth
from tests.parity_runs import RUN, lines
from tests.waiting import FOREVER_S
from tests.witness_server import Authority, needs_openssl, serving

pytestmark = needs_openssl


@pytest.fixture(scope="module", autouse=True)
def busy():
    """A machine that is busy with other tests answers late; how late counts is tried in tests/rules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("suite.record.witness.LATE_S", FOREVER_S)
        patch.setattr("suite.rules.witness.TOLERANCE_S", FOREVER_S)
        yield


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def ended(tmp_path_factory, authority):
    """A witnessed run."""
    folder = tmp_path_factory.mktemp("ended")
    with serving(lambda query: (200, authority.reply(query))) as url:
        done = eighth(folder, "run", *RUN, "seed=1", f"witness={url}", "out=evidence")
    assert done.returncode == 0, done.stderr
    assert "not witnessed" not in done.stdout
    return folder / "evidence"


def found(folder, authority):
    done = eighth(folder.parent, "review", folder.name, "--json", "--witness-roots", str(authority.root))
    made = json.loads(done.stdout)
    return made["verdict"], [f["found"] for f in made["findings"] if f["rule"] == "timing.8"]


def had(folder):
    (line,) = (line for line in lines(folder) if line.key == "suite_witness")
    return [line.metadata[key] for key in STAMPS], [(folder / name).exists() for name in STAMPS.values()]


def test_both_ends_of_the_clock_are_stamped_by_a_real_authority(ended, authority):
    assert had(ended) == ([True, True], [True, True])
    assert found(ended, authority) == ("pass", [])


def test_the_stamp_is_of_the_line_itself(ended, authority, tmp_path):
    """As anybody can see by openssl, with the line's bytes and no program of ours."""
    line = next(line for line in lines(ended) if line.key == keys.RUN_STOP)
    (tmp_path / "line").write_bytes(line.raw)
    words = f"-in {ended / STAMPS[keys.RUN_STOP]} -data {tmp_path / 'line'} -CAfile {authority.root}"
    assert os.system(f"openssl ts -verify {words} >/dev/null 2>&1") == 0


ANSWERS = {
    "an error": lambda query: (503, b""),
    "nothing": lambda query: (200, b""),
    "garbage": lambda query: (200, b"\0" * 1000),
    "too much": lambda query: (200, b"\0" * (1 << 20)),
}


@pytest.mark.parametrize("answer", [*ANSWERS, "nobody", "something else's stamp"])
def test_a_witness_that_fails_is_a_note_and_one_line(answer, tmp_path, authority):
    other = authority.stamp(b"another line", time.time())
    with serving(ANSWERS.get(answer, lambda query: (200, other))) as url:
        if answer == "nobody":
            url = "http://127.0.0.1:9/"
        done = eighth(tmp_path, "run", *RUN, "seed=1", f"witness={url}", "out=evidence")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("not witnessed by 127.0.0.1: ") == 1
    assert had(tmp_path / "evidence") == ([False, False], [False, False])
    assert found(tmp_path / "evidence", authority) == ("pass", ["none", "none"])


def test_a_stamp_that_comes_late_is_none(tmp_path, authority, monkeypatch):
    monkeypatch.setattr("suite.record.witness.LATE_S", 0.5)

    def answer(query):
        time.sleep(1)
        return 200, authority.reply(query)

    with serving(answer) as url:
        done = eighth(tmp_path, "run", *RUN, "seed=1", f"witness={url}", "out=evidence")
    assert done.returncode == 0, done.stderr
    assert had(tmp_path / "evidence") == ([False, False], [False, False])


@pytest.mark.parametrize("last", ["run_start", "eval_accuracy", "run_stop"])
def test_a_killed_run_keeps_the_stamp_that_it_has(ended, tmp_path, authority, last):
    folder = tmp_path / "evidence"
    shutil.copytree(ended, folder)
    raw = (folder / "log.txt").read_bytes().splitlines(keepends=True)
    (folder / "log.txt").write_bytes(b"".join(raw[: [line.key for line in lines(folder)].index(last) + 1]))
    (folder / "manifest.json").unlink()
    if last != "run_stop":
        (folder / STAMPS[keys.RUN_STOP]).unlink()
    before = (folder / STAMPS[keys.RUN_START]).read_bytes()
    with serving(lambda query: (200, authority.reply(query))) as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr("suite.run.resuming.stored", lambda *named: {**stored(*named), "witness": url})
        done = eighth(tmp_path, "run", *RUN, "resume=evidence")
    assert done.returncode == 0, done.stderr
    assert (folder / STAMPS[keys.RUN_START]).read_bytes() == before
    assert had(folder) == ([True, True], [True, True])
    assert found(folder, authority) == ("pass", [])


def test_a_run_whose_clock_has_no_begin_yet_begins_anew(ended, tmp_path, authority):
    """Of a power cut: the stamp was on the disk, its line was not."""
    folder = tmp_path / "evidence"
    shutil.copytree(ended, folder)
    raw = (folder / "log.txt").read_bytes().splitlines(keepends=True)
    (folder / "log.txt").write_bytes(b"".join(raw[:5]))
    (folder / "manifest.json").unlink()
    done = eighth(tmp_path, "run", *RUN, "resume=evidence")
    assert done.returncode == 0, done.stderr
    assert had(folder)[0] == had(folder)[1] == [False, False]
    assert found(folder, authority)[0] == "pass"


@pytest.mark.parametrize(
    "url",
    [
        "stamps.example.org",
        "ftp://example.org/",
        "http://a:b@example.org/",
        "http://",
        "http://[",
        "http://x/" + "y" * 200,
    ],
)
def test_an_address_that_is_none_is_one_line(url, tmp_path):
    done = eighth(tmp_path, "run", *RUN, f"witness={url}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is not an address http://HOST/... or https://HOST/..." in done.stderr
