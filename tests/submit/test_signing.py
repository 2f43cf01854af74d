"""What was sealed and signed, and what was changed since."""

import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest

from suite.errors import UserError
from suite.review.__main__ import main as review
from suite.review.model import report
from suite.rules.seals import SEAL, SIGNATURE
from suite.submit.__main__ import main
from tests.submit.conftest import ORG, PLACE, files


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / PLACE / "result_0.txt").write_text("another"),
        lambda folder: (folder / PLACE / "run_1" / "predictions.jsonl").unlink(),
        lambda folder: (folder / "systems" / "more.json").write_text("{}"),
        lambda folder: (folder / SEAL).write_text("{}"),
        lambda folder: (folder / SEAL).write_text('{"version": 1, "files": {"../x": "0"}}'),
        lambda folder: (folder / "systems" / "cpu_torch.json").write_text("{}"),
    ],
)
def test_change_after_the_sealing_is_found_by_review_and_by_verify(change, submit, told, capsys):
    submit(f"description={told}")
    assert main([f"verify={submit.folder}"]) == 0
    change(submit.folder)
    assert main([f"verify={submit.folder}"]) == 1
    assert "NOT what was sealed, 1 difference\n" in capsys.readouterr().out
    found = report(submit.folder.parent)
    assert found.verdict == "fail"
    assert "package.6" in {finding.rule for finding in found.findings}


def test_log_under_mlperf_s_name_is_that_of_its_run(submit, told):
    """A seal made anew over two logs that differ is found out all the same."""
    submit(f"description={told}")
    log = submit.folder / PLACE / "result_0.txt"
    log.write_bytes(log.read_bytes() + b"\n")
    seal = json.loads((submit.folder / SEAL).read_text())
    seal["files"][f"{PLACE}/result_0.txt"] = hashlib.sha256(log.read_bytes()).hexdigest()
    (submit.folder / SEAL).write_text(json.dumps(seal))
    findings = [finding for finding in report(submit.folder).findings if finding.rule == "package.6"]
    assert [(finding.file, finding.severity) for finding in findings] == [(f"{PLACE}/result_0.txt", "fail")]


@pytest.fixture(params=["ed25519", "ecdsa"])  # ecdsa signs the same seal otherwise each time
def key(request, tmp_path):
    if not shutil.which("ssh-keygen"):
        pytest.skip("this machine has no ssh-keygen")
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", request.param, "-N", "", "-C", "", "-f", str(path)], check=True)
    return path


def signers(tmp_path, key, org=ORG):
    path = tmp_path / "allowed_signers"
    path.write_text(f"{org} {key.with_suffix('.pub').read_text()}")
    return path


def test_signature_is_verified(submit, told, key, tmp_path, capsys):
    assert submit(f"description={told}", f"sign={key}") == 0
    words = [f"verify={submit.folder}", f"signers={signers(tmp_path, key)}"]
    assert main(words) == 0
    assert re.search(r'Good "time-to-accuracy-submission" signature for someone', capsys.readouterr().out)
    assert review([str(submit.folder)]) == 0
    assert submit(f"description={told}", f"sign={key}") == 0  # the same again


def test_key_that_cannot_sign_is_refused_before_anything_is_written(submit, told, tmp_path):
    (tmp_path / "text").write_text("no key")
    for name, answer in (("nowhere", "no such key"), ("text", "could not sign")):
        with pytest.raises(UserError, match=answer):
            submit(f"description={told}", f"sign={tmp_path / name}")
    assert not submit.folder.exists()


def test_another_key_on_a_signed_submission_is_refused(submit, told, key, tmp_path):
    submit(f"description={told}", f"sign={key}")
    before = files(submit.folder)
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    with pytest.raises(UserError, match=f"{SIGNATURE} is there already, and not of sign="):
        submit(f"description={told}", f"sign={other}")
    assert files(submit.folder) == before


def test_signature_of_another_is_refused(submit, told, key, tmp_path):
    submit(f"description={told}", f"sign={key}")
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    with pytest.raises(UserError, match="is not one of someone's"):
        main([f"verify={submit.folder}", f"signers={signers(tmp_path, other)}"])
    with pytest.raises(UserError, match="is not one of someone's"):
        main([f"verify={submit.folder}", f"signers={signers(tmp_path, key, org='another')}"])


def test_seal_that_was_changed_breaks_its_signature(submit, told, key, tmp_path):
    submit(f"description={told}", f"sign={key}")
    path = submit.folder / SEAL
    path.write_text(path.read_text().replace('"available"', '"preview"'))
    with pytest.raises(UserError, match="is not one of someone's"):
        main([f"verify={submit.folder}", f"signers={signers(tmp_path, key)}"])


def test_signed_submission_is_not_changed_unseen(submit, told, key):
    submit("partial=true", f"sign={key}")
    before = files(submit.folder)
    with pytest.raises(UserError, match=f"remove {SIGNATURE}"):
        submit(f"description={told}")
    assert files(submit.folder) == before


def test_unsigned_submission_has_no_signature_to_verify(submit, told, key, tmp_path):
    submit(f"description={told}")
    with pytest.raises(UserError, match="is not signed"):
        main([f"verify={submit.folder}", f"signers={signers(tmp_path, key)}"])
    assert submit(f"description={told}", f"sign={key}") == 0  # a signature is added
    assert main([f"verify={submit.folder}", f"signers={signers(tmp_path, key)}"]) == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [(os.mkfifo, "is not a plain file"), (lambda path: path.symlink_to("/dev/zero"), "is a symbolic link")],
)
def test_what_is_no_plain_file_is_no_signature(make, said, submit, told, key, tmp_path):
    submit(f"description={told}")
    make(submit.folder / SIGNATURE)
    with pytest.raises(UserError, match=f"{SIGNATURE}: {said}: no signature"):
        main([f"verify={submit.folder}", f"signers={signers(tmp_path, key)}"])
