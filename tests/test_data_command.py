from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from suite import config, data
from suite.config import folder
from suite.errors import UserError
from tests.command import refuses
from tests.store.conftest import tar

CONTENT = b"content"
ARCHIVE = tar({"birds/a.bin": CONTENT})
NAMES = ["birds/mini", "birds/small"]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A task `birds` with an embedded and a downloaded dataset, and an empty data folder."""

    def described(path: str, content: bytes) -> dict[str, object]:
        return {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    about = {"licence": "CC0-1.0", "citation": "Bird, B. (2020).", "source": "-", "eval_samples": 1, "arrays": {}}
    common = {
        "title": "Birds",
        "metric": "accuracy",
        "target": 1,
        "direction": "higher",
        "evaluation": {"first": 1, "every": 1},
        "budget_samples": 1,
        "runs": 1,
        "hyperparameters": {},
    }
    small = {
        "name": "Birds 7",
        "files": [described("birds/a.bin", CONTENT)],
        "archive": {**described("birds.tar", ARCHIVE), "url": "http://127.0.0.1:1/birds.tar"},
    }
    scales = {
        "mini": {**common, "dataset": {**about, "name": "Tiny birds"}},
        "small": {**common, "dataset": {**about, **small}},
    }
    (tmp_path / "conf/task").mkdir(parents=True)
    (tmp_path / "conf/task/birds.yaml").write_text(yaml.safe_dump({"title": "Birds", "scales": scales}))
    monkeypatch.setattr(folder, "CONF", tmp_path / "conf")
    config.load.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SUITE_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    yield tmp_path / "data"
    config.load.cache_clear()


def table(capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_ls_has_one_line_for_each_dataset(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main(["ls"]) == 0
    rows = table(capsys)
    assert list(rows) == ["benchmark", *NAMES]
    assert rows["birds/mini"] == ["Tiny birds", "CC0-1.0", "0", "embedded", "Bird, B. (2020)."]
    assert rows["birds/small"] == ["Birds 7", "CC0-1.0", "0.0 MB", "0 of 1 files", "Bird, B. (2020)."]
    (root / "birds").mkdir()
    (root / "birds/a.bin").write_bytes(CONTENT)
    data.main(["ls", "birds/small"])
    assert table(capsys)["birds/small"][3] == "present"


def test_a_terminal_gets_a_table_of_one_line_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    data.main(["ls"])
    lines = capsys.readouterr().out.splitlines()
    told = ["birds/small" in line and "0 of 1 files" in line for line in lines]
    assert told.count(True) == 1  # above it the title, as many lines as its path needs, and the heads
    assert told[-1]


@pytest.mark.parametrize(("columns", "cited"), [("60", False), ("130", True)])
def test_a_terminal_has_licences_whole_and_citations_where_there_is_room(
    columns: str, cited: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", columns)
    data.main(["ls"])
    shown = capsys.readouterr().out
    dataset = config.benchmark("birds", "small").dataset
    assert all(word in shown for word in dataset.licence.split())
    assert ("citation" in shown) == cited
    assert "…" not in shown


@pytest.mark.parametrize(
    "words", [["birds/small"], ["task=birds", "scale=small"], ["birds", "scale=small"], ["birds"], ["task=birds"]]
)
def test_fetch_brings_the_files(root: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (root / "birds.tar").write_bytes(ARCHIVE)
    assert data.main(["fetch", *words]) == 0
    assert (root / "birds/a.bin").read_bytes() == CONTENT
    assert f"birds/small: in {root}" in capsys.readouterr().out


def test_fetch_tells_size_and_licence_of_what_it_brings(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "birds.tar").write_bytes(ARCHIVE)
    there = ["birds/mini: embedded, needs no files", f"birds/small: in {root}"]
    for brought in (["birds/small: Birds 7, 0.0 MB to bring; licence: CC0-1.0"], []):
        assert data.main(["fetch", "birds"]) == 0
        assert capsys.readouterr().out.splitlines() == [there[0], *brought, there[1]]


def test_data_is_brought_before_a_check_can_tell_its_sums(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "conf/task/birds.yaml"
    declared = yaml.safe_load(file.read_text())
    for scale in declared["scales"].values():
        del scale["dataset"]["eval_samples"], scale["dataset"]["arrays"]
    file.write_text(yaml.safe_dump(declared))
    (root / "birds.tar").write_bytes(ARCHIVE)
    assert data.main(["fetch", "birds"]) == 0
    capsys.readouterr()
    assert data.main(["ls"]) == 0
    assert table(capsys)["birds/small"][3] == "present"


@pytest.mark.parametrize(
    ("lines", "said"),
    [(None, "unknown list of conf/files 'flocks'"), ("- seven a.bin\n", "line 1 is not <sha256>  <bytes>  <path>")],
)
def test_a_list_of_files_that_is_none_is_one_line(tmp_path: Path, lines: str | None, said: str) -> None:
    file = tmp_path / "conf/task/birds.yaml"
    declared = yaml.safe_load(file.read_text())
    declared["scales"]["small"]["dataset"]["files"] = "flocks"
    file.write_text(yaml.safe_dump(declared))
    if lines is not None:
        (tmp_path / "conf/files").mkdir()
        (tmp_path / "conf/files/flocks.txt").write_text(lines)
    with pytest.raises(UserError, match=said):
        data.main(["ls"])


def test_the_data_folder_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(tmp_path / "other")
    assert data.main(["path", f"data_dir={other}", "birds/small"]) == 0
    assert capsys.readouterr().out == f"{other}/birds/a.bin\n"


def test_path_is_the_data_folder(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data.main(["path"])
    assert capsys.readouterr().out == f"{root}\n"
    data.main(["path", "birds/mini"])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "birds/mini is embedded" in printed.err


def test_verify_lists_the_faults(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main(["verify"]) == 0
    assert "birds/small: not fetched" in capsys.readouterr().out
    assert data.main(["verify", "birds/small"]) == 1
    printed = capsys.readouterr().out
    assert f"{root}/birds/a.bin is missing" in printed
    assert printed.endswith("run python -m suite.data fetch BENCHMARK.\n")
    (root / "birds").mkdir()
    (root / "birds/a.bin").write_bytes(b"CONTENT")
    assert data.main(["verify"]) == 1
    printed = capsys.readouterr().out
    for content in (CONTENT, b"CONTENT"):
        assert hashlib.sha256(content).hexdigest() in printed
    (root / "birds/a.bin").write_bytes(CONTENT)
    assert data.main(["verify"]) == 0
    assert capsys.readouterr().out == "birds/mini: embedded, has no files\nbirds/small: 1 of 1 files right\n"


def test_verify_tells_what_no_sum_holds(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "conf/task/birds.yaml"
    declared = yaml.safe_load(file.read_text())
    del declared["scales"]["small"]["dataset"]["files"][0]["sha256"]
    file.write_text(yaml.safe_dump(declared))
    (root / "birds").mkdir()
    (root / "birds/a.bin").write_bytes(b"CONTENT")
    assert data.main(["verify", "birds/small"]) == 0
    said = "birds/small: 1 of 1 files right; 1 of them by size alone, no sum is declared\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fetsh"], "unknown command 'fetsh': did you mean 'fetch'?"),
        (["fetch", "bird"], "unknown task 'bird': did you mean 'birds'?"),
        (["fetch", "birds/smal"], "unknown scale of birds 'smal': did you mean 'small'?"),
        (["fetch", "task=birds", "scale=smal"], "did you mean 'small'?"),
        (["fetch", "tusk=birds"], "unknown option 'tusk': did you mean 'task'?"),
        (["fetch", "scale=mini"], "scale= needs a task"),
        (["fetch"], "fetch needs a benchmark or a task"),
        (["ls", "--dir=x"], "unrecognized arguments: --dir=x"),
        ([], "do what? Give one of: ls, fetch, verify, path"),
        (["path", "birds/small", "data_dir="], "data_dir= has no value: give one, or leave it out"),
        (["path", "birds/small", ""], "an empty word follows birds/small: give a value, or leave it out"),
        (["path", "birds/small", "--data-dir="], "--data-dir= has no value"),
        (["ls", "birds/small", "scale=mini"], "scale=mini contradicts birds/small"),
        (["fetch", "birds/small", "subset=half"], "subset=half is no number"),
        (["fetch", "birds/small", "subset=0.5"], "subset=0.5 takes a part of a dataset's shards, and Birds 7 has none"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], said: str) -> None:
    refuses(data.main, words, said)


def test_help_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        data.main(["--help"])
    assert end.value.code == 0
    assert "fetch BENCHMARK|TASK" in capsys.readouterr().out


def test_exit_code_of_a_mistake_is_2() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "suite.data", "--nonsense"],
        capture_output=True,
        text=True,
        cwd=Path(data.__file__).parent.parent,
        env=dict(os.environ),
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stderr.startswith("error: ")
