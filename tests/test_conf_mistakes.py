"""A file of conf/ that cannot be read, or that no run or review could use, is one line."""

import re
import shutil

import pytest

from suite.config import folder
from suite.config.formats import formats
from suite.errors import UserError
from suite.run.__main__ import main


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (b"memory_gb: 1\nmemory_gb: 2\n", "conf/hw/mine.yaml, line {last}: memory_gb is given twice."),
        (b"# caf\xe9\n", "conf/hw/mine.yaml cannot be read, as YAML in UTF-8: 'utf-8' codec can't decode byte 0xe9"),
        (b"# \x01\n", "conf/hw/mine.yaml cannot be read, as YAML in UTF-8: unacceptable character #x0001"),
    ],
)
def test_a_file_of_a_system_that_cannot_be_read_is_one_line(more, said, tmp_path, monkeypatch):
    content = (folder.CONF / "hw/cpu.yaml").read_bytes() + more
    assert _told_of_a_system(content, tmp_path, monkeypatch).startswith(said.format(last=content.count(b"\n")))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            r"^price:\n(  .*\n)*",
            "",
            "conf/hw/mine.yaml gives price_per_hour and not whose price it is: add price: with",
        ),
        (r"provider: .*", "provider: ''", "hw.price.provider is ''"),
        (
            r"date: .*",
            "date: 2026-01-31",
            "mine.yaml: price.date is datetime.date(2026, 1, 31): Input should be a valid string; put it in quotes.",
        ),
        (r"fp8: 1979", "fp8: 0", "hw.peak_tflops.fp8 is 0: Input should be greater than 0"),
        (r"^memory_gb: 80", "memory_gb: true", "hw.memory_gb is True: Input should be a number, not true or false"),
        (r"^memory_gb: 80", "memory_gb: '80'", "hw.memory_gb is '80': Input should be a number, written without"),
        (r"^precision: .*", "precision: ''", "unknown precision ''"),
        (r"^memory_gb: 80", "memory_gb: -80", "hw.memory_gb is -80: Input should be greater than 0"),
        (r"^memory_gb: 80", "memory_gb: 1.0e-308", "hw.memory_gb is 1e-308: Input should be greater than "),
        (r"^price_per_hour: .*", "price_per_hour: 1.0e+308", "hw.price_per_hour is 1e+308: Input should be less than "),
        (r"^accelerators_per_node: .*\n", "", "hw.accelerators_per_node=0: say how many "),
        (r"^accelerator: .*\n", "", "hw.accelerators_per_node=1: hw=mine names no accelerator"),
    ],
)
def test_a_file_of_a_system_that_no_run_or_review_could_use_is_one_line(old, new, said, tmp_path, monkeypatch):
    content = (folder.CONF / "hw/h100.yaml").read_text()
    changed, count = re.subn(rf"(?m){old}", new, content)
    assert count == 1
    assert said in _told_of_a_system(changed.encode(), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("closed: true", "close: true", "unknown field of conf/formats.yaml: fp32 'close': did you mean 'closed'?"),
        ("closed: true", "closed: true, closed: true", "conf/formats.yaml, line 1: closed is given twice."),
    ],
)
def test_a_file_of_formats_that_cannot_be_read_is_one_line(old, new, said, tmp_path, monkeypatch):
    content = next(line for line in (folder.CONF / "formats.yaml").read_text().splitlines() if line.startswith("fp32"))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/formats.yaml").write_text(content.replace(old, new))
    monkeypatch.setattr(folder, "CONF", tmp_path / "conf")
    formats.cache_clear()
    with pytest.raises(UserError) as told:
        formats()
    assert str(told.value).startswith(said)


@pytest.mark.parametrize("group", ["hw", "task"])
def test_help_names_the_file_that_has_no_title(group, tmp_path, monkeypatch):
    shutil.copytree(folder.CONF, tmp_path / "conf")
    (tmp_path / f"conf/{group}/mine.yaml").write_text("{}")
    monkeypatch.setattr(folder, "CONF", tmp_path / "conf")
    folder.load.cache_clear()
    with pytest.raises(UserError, match=rf"^conf/{group}/mine\.yaml: title is missing"):
        main(["--help"])


def _told_of_a_system(content, tmp_path, monkeypatch):
    """What a dry run says of a system whose file has this content."""
    shutil.copytree(folder.CONF, tmp_path / "conf")
    (tmp_path / "conf/hw/mine.yaml").write_bytes(content)
    monkeypatch.setattr(folder, "CONF", tmp_path / "conf")
    folder.load.cache_clear()
    with pytest.raises(UserError) as told:
        main(["task=image_classification", "scale=mini", "hw=mine", "dry_run=true"])
    return str(told.value)
