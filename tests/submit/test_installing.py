"""A submission where one stands already: a full disk, a killed command or a change of mind leaves it whole."""

import errno
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from filelock import FileLock

from suite.errors import UserError
from suite.rules.seals import SEAL
from suite.submit import installing
from suite.submit.__main__ import main
from tests.submit.conftest import ORG, files, write_committed


def test_a_full_disk_leaves_what_was_sealed(submit, told, monkeypatch):
    assert submit("partial=true") == 0
    before, copy = files(submit.folder), shutil.copyfile

    def full(source, target):
        if target.name == f".{SEAL}.new":
            raise OSError(errno.ENOSPC, "No space left on device")
        return copy(source, target)

    with monkeypatch.context() as disk:
        disk.setattr(installing.shutil, "copyfile", full)
        with pytest.raises(UserError, match="No space left"):
            submit(f"description={told}")
    assert files(submit.folder) == before
    assert submit(f"description={told}") == 0


def test_a_full_disk_of_temporary_folders_is_named_with_its_mend(submit, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("suite.submit.__main__.seal", Mock(side_effect=full))
    with pytest.raises(UserError, match=r"suite-submit-\S+: No space left on device; name a folder .* as TMPDIR$"):
        submit("partial=true")


def test_what_a_killed_command_left_beside_its_place_goes(submit, told):
    assert submit(f"description={told}") == 0
    log = next(submit.folder.rglob("result_0.txt"))
    left = log.with_name(f".{log.name}.new")
    left.write_text("half of a")
    assert submit(f"description={told}") == 0
    assert not left.exists()


def test_the_same_command_goes_on_where_one_ended_among_its_files(submit, told, tmp_path, monkeypatch):
    assert submit(f"description={told}", "system=one") == 0
    more = (f"runs={write_committed(tmp_path / 'more', seed=200)}", "system=two")
    replace, moved = Path.replace, []

    def failing(path, place):
        if len(moved) == 3:
            raise OSError(errno.EIO, "Input/output error")
        moved.append(Path(place))
        return replace(path, place)

    words = [f"org={ORG}", "category=available", f"out={submit.folder.parent}", f"description={told}", *more]
    with monkeypatch.context() as disk:
        disk.setattr(installing.Path, "replace", failing)
        with pytest.raises(UserError, match="Input/output error; mend that, and give the same command"):
            main(words)
    content = moved[-1].read_bytes()
    moved[-1].write_text("another")
    with pytest.raises(UserError, match=f"{moved[-1]} is not as .* another file; restore it"):
        main(words)
    moved[-1].write_bytes(content)
    assert main(words) == 0
    assert main([f"verify={submit.folder}"]) == 0


def test_two_commands_do_not_write_one_submission(submit, told, tmp_path):
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / f"out/.{ORG}.lock"), pytest.raises(UserError, match="another command is at work there"):
        submit(f"description={told}")


def test_a_folder_that_cannot_be_written_is_told_with_its_mend(submit, tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(UserError, match=r"/out cannot be written \(File exists\): mend that, or choose another out="):
        submit()


def test_a_waiver_that_is_withdrawn_breaks_no_seal(submit, runs, told):
    waiver = {"rule": "timing.2", "reason": "slow disk", "reviewer": "me", "date": "2026-01-01"}
    (runs / "run_2/waivers.yaml").write_text(yaml.safe_dump({"waivers": [waiver]}))
    assert submit(f"description={told}") == 0
    (runs / "run_2/waivers.yaml").unlink()
    with pytest.raises(UserError, match=r"run_2/waivers\.yaml is there already, and the runs no longer have it"):
        submit(f"description={told}")
    assert main([f"verify={submit.folder}"]) == 0
