"""The check of a run's time-stamps (RFC 3161), by which an outside authority witnesses its clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import WITNESS
from suite.errors import UserError
from suite.record.evidence import CONFIG, LOG, STAMPS
from suite.record.mllog import Line, line_hash, since_restart
from suite.record.names import host_of
from suite.record.parsing import same
from suite.rules.finding import FOLDER_AS_WRITTEN, LOG_AS_WRITTEN, Finding, verdict_of
from suite.rules.reading import RUN, Evidence
from suite.store.disk import UnsafeFile, read_safely, reason

if TYPE_CHECKING:
    from cryptography import x509

TOLERANCE_S = 2.0  # between the log's time and the stamps', which are in whole seconds and come within one
DRIFT = 1e-4  # of a clock that nobody sets, in seconds a second
_MAX_ROOTS_BYTES = 1 << 20
_SHA256 = "2.16.840.1.101.3.4.2.1"


def roots_of(path: Path) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM file: of the authorities that a reviewer trusts. Raises UserError if there are none."""
    from cryptography import x509  # imported here: this and the client take 0.1 s

    try:
        return tuple(x509.load_pem_x509_certificates(read_safely(path, _MAX_ROOTS_BYTES)))
    except (OSError, UnsafeFile) as error:
        raise UserError(f"cannot read --witness-roots {path}: {reason(error)}") from error
    except ValueError as error:
        raise UserError(f"--witness-roots {path} holds no certificates in PEM") from error


@dataclass(frozen=True)
class Stamp:
    """What a stamp says: the hash of what was stamped, and when, in seconds since 1970."""

    imprint: str
    seconds: float

    @classmethod
    def read(cls, content: bytes) -> Stamp:
        """Read the stamp from a DER-encoded response. Raises ValueError for anything else."""
        from rfc3161_client import PKIStatus, decode_timestamp_response  # as above

        try:
            response = decode_timestamp_response(content)
            granted, info = response.status == PKIStatus.GRANTED, response.tst_info
            imprint, at = info.message_imprint, info.gen_time
        except Exception as error:  # the parser raises several kinds
            raise ValueError("not a time-stamp response") from error
        if not granted or imprint.hash_algorithm.dotted_string != _SHA256:
            raise ValueError("not a granted time-stamp by sha256")
        return cls(imprint.message.hex(), at.timestamp())


def vouched_for(content: bytes, roots: tuple[x509.Certificate, ...]) -> bool:
    """Whether a time-stamping authority that one of the certificates vouches for signed a DER-encoded response."""
    from rfc3161_client import VerifierBuilder, decode_timestamp_response  # as above

    try:
        response = decode_timestamp_response(content)
        verifier = VerifierBuilder(roots=list(roots)).build()
        return verifier.verify(response, response.tst_info.message_imprint.message)
    except Exception:  # VerificationError, and several kinds from the parsers
        return False


@RUN.rule("timing.8")
def witnessed(run: Evidence) -> Iterator[Finding]:
    """If a witness was asked, its stamps are signed, are of this log, and agree with the log's clock."""
    yield from _told(run)
    stamps: dict[str, Stamp] = {}
    for key, name in STAMPS.items():
        if name in run.contents:
            try:
                stamps[key] = Stamp.read(run.contents[name])
            except ValueError as error:
                yield Finding(name, None, "a time-stamp (RFC 3161)", str(error), FOLDER_AS_WRITTEN)
    for key, stamp in stamps.items():
        yield from _sound(run, key, stamp)
    start, stop = run.timeline.run_start, run.timeline.run_stop
    if start and stop and len(stamps) == len(STAMPS):
        yield from _agree(start, stop, stamps)
    if start and keys.RUN_START in stamps:
        yield from _dated(start, stamps[keys.RUN_START])


def is_witnessed(run: Evidence) -> bool:
    """Whether both stamps hold, and an authority that the reviewer trusts vouches for them."""
    return bool(run.roots) and run.contents.keys() >= {*STAMPS.values()} and verdict_of(witnessed(run)) == "pass"


def _told(run: Evidence) -> Iterator[Finding]:
    """Where log, configuration and files disagree on the witness or its stamps; a note for each missing stamp."""
    line, asked = run.last(WITNESS), run.configured("witness")
    host = host_of(asked) if isinstance(asked, str) else None
    if line and run.parsed(CONFIG) and (host is None or not same(host, line.value)):
        expected = f"the witness of log line {line.number}, {line.value}"
        yield Finding(CONFIG, run.config_line("witness"), expected, asked, FOLDER_AS_WRITTEN)
    since = since_restart(run.lines)[0].number if run.lines else 0
    for other in [each for each in run.lines_of.get(WITNESS, []) if each.number >= since][1:]:
        yield Finding(LOG, other.number, f"{WITNESS} once", "again", FOLDER_AS_WRITTEN)
    for key, name in STAMPS.items():
        had = name in run.contents
        if run.readable and had != bool(line and line.metadata.get(key)):
            expected = f"{name}, as the log has it" if line and not had else f"a line {WITNESS} that names {key}"
            yield Finding(name if line else LOG, None, expected, "none", FOLDER_AS_WRITTEN)
        elif not had and (line or asked is not None):
            mend = "none: the witness did not answer in time; see docs/submissions.md"
            yield Finding(LOG, line.number if line else None, f"a time-stamp of {key}", "none", mend, "note")


def _sound(run: Evidence, key: str, stamp: Stamp) -> Iterator[Finding]:
    """Where a stamp is of another line, or not of a trusted authority; a note if the reviewer named no certificates."""
    name, line = STAMPS[key], run.last(key)
    if line and line_hash(line.raw) != stamp.imprint:
        expected = f"a stamp of log line {line.number}: {line_hash(line.raw)}"
        yield Finding(name, None, expected, stamp.imprint, FOLDER_AS_WRITTEN)
    if not run.roots:
        mend = "name the certificates of its authority: --witness-roots FILE"
        yield Finding(name, None, "an authority that vouches for the stamp", "none that you named", mend, "note")
    elif not vouched_for(run.contents[name], run.roots):
        mend = "ask an authority that the reviewer trusts"
        yield Finding(name, None, "a signature that the reviewer's certificates vouch for", "none", mend)


def _agree(start: Line, stop: Line, stamps: dict[str, Stamp]) -> Iterator[Finding]:
    """Where the stamps and the log disagree on how long the run took."""
    logged = (stop.time_ms - start.time_ms) / 1000
    seen = stamps[keys.RUN_STOP].seconds - stamps[keys.RUN_START].seconds
    if seen < 0 or abs(seen - logged) > TOLERANCE_S + DRIFT * logged:
        expected = f"{seen:.0f} s between {keys.RUN_START} and {keys.RUN_STOP}, as their stamps have it"
        yield Finding(LOG, stop.number, expected, f"{logged:.3f} s", LOG_AS_WRITTEN)


def _dated(start: Line, stamp: Stamp) -> Iterator[Finding]:
    """A note where the log's clock was off at run_start."""
    off = start.time_ms / 1000 - stamp.seconds
    if abs(off) > TOLERANCE_S:
        expected = f"{keys.RUN_START} at {stamp.seconds:.0f} s since 1970, as its stamp has it"
        yield Finding(LOG, start.number, expected, f"{off:+.1f} s from that", "set the machine's clock", "note")
