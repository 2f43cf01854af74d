"""Signatures of a submission's seal by OpenSSH: `ssh-keygen -Y sign` and `ssh-keygen -Y verify`."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from suite.errors import UserError
from suite.rules.seals import SEAL, SIGNATURE, Seal
from suite.store.disk import UnsafeFile, read_safely, reason

NAMESPACE = "time-to-accuracy-submission"
_MOST_BYTES = 1 << 20  # of a signature
_TIMEOUT_S = 120  # a person may have to type a passphrase


def sign(staged: Path, target: Path, key: Path) -> None:
    """Sign the seal in `staged` with a private key, unless the submission at `target` is signed with that key already.

    Raises UserError if the key cannot sign, or if another key signed `target`.
    """
    if not key.is_file():
        raise UserError(f"sign={key}: no such key; make one with: ssh-keygen -t ed25519 -f {shlex.quote(str(key))}")
    done = _keygen("sign", "-f", str(key.absolute()), "-n", NAMESPACE, str(staged / SEAL))
    signature = target / SIGNATURE
    if done.returncode or not (staged / SIGNATURE).exists():
        raise UserError(f"ssh-keygen could not sign {target / SEAL} with {key}: {_said(done)}")
    if signature.exists():
        if _signer(target) != _signer(staged):
            raise UserError(
                f"{signature} is there already, and not of sign={key}: "
                f"suite submit verify={shlex.quote(str(target))} signers=FILE checks it"
            )
        (staged / SIGNATURE).unlink()


def verify(folder: Path, signers: Path) -> str:
    """Check the signature in `folder` by the keys that `signers` (ssh's allowed_signers) has for its submitter.

    Returns what ssh-keygen says of a good signature. Raises UserError for one that is missing or not good.
    """
    if not signers.is_file():
        raise UserError(f"signers={signers}: no such file; a line of it is: ORG ssh-ed25519 AAAA...")
    try:
        read_safely(folder / SIGNATURE, _MOST_BYTES)
    except FileNotFoundError:
        raise UserError(f"{folder} is not signed: it holds no {SIGNATURE}") from None
    except (UnsafeFile, OSError) as error:  # ssh-keygen would follow a link, and wait for a pipe
        raise UserError(f"{folder / SIGNATURE}: {reason(error)}: no signature") from error
    org = Seal.read(folder).org
    done = _keygen(
        "verify",
        *("-f", str(signers.absolute()), "-I", org, "-n", NAMESPACE, "-s", str(folder.absolute() / SIGNATURE)),
        stdin=(folder / SEAL).read_bytes(),
    )
    if done.returncode:
        raise UserError(f"the signature of {folder} is not one of {org}'s in {signers}: {_said(done)}")
    return done.stdout.decode(errors="replace").strip()


def _signer(folder: Path) -> bytes:
    """What ssh-keygen says of the signature in `folder`, with the fingerprint of its key."""
    words = ("check-novalidate", "-n", NAMESPACE, "-s", str(folder.absolute() / SIGNATURE))
    return _keygen(*words, stdin=(folder / SEAL).read_bytes()).stdout


def _keygen(*words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["ssh-keygen", "-Y", *words], input=stdin, capture_output=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"ssh-keygen (OpenSSH 8.2 or later) is needed for signatures: {error}") from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return " ".join((done.stderr or done.stdout).decode(errors="replace").split()) or f"exit code {done.returncode}"
