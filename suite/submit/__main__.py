"""`python -m suite.submit`: from runs to a submission that a reviewer can check, complete or saying what it lacks."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from suite.errors import UserError, command, one_of, shown, split_options, truth
from suite.record import names
from suite.record.parsing import MalformedError
from suite.record.summary import format_count
from suite.record.system import DIVISIONS, STATUSES
from suite.review.terminal import score
from suite.rules.seals import SEAL, SIGNATURE, findings
from suite.store.disk import alone, having_room
from suite.store.files import data_option
from suite.submit import describing, signing
from suite.submit.checking import Checked, check
from suite.submit.collecting import collect
from suite.submit.installing import install
from suite.submit.staging import Declared, seal, stage

NOT_WRITTEN = 1
OPTIONS = (
    *("org", "division", "category", "runs", "system", "description", "out", "partial", "data_dir", "states", "sign"),
    "token",
    *("verify", "signers"),
)
MAX_LISTED = 100

HELP = """\
suite submit org=ORG category=CATEGORY runs=FOLDER[,FOLDER...] [option=value ...]
suite submit verify=SUBMISSION [signers=FILE]

Collect runs into a submission, submissions/ORG/, in MLPerf's package layout, and seal it.

Everything that a review would check is checked before anything is written: the package by rules.md, with the
predictions scored again. All that is missing is listed at once. The same command again writes nothing; with more runs=,
or a description= that fills a gap, it adds them. Nothing is ever overwritten.

  org=NAME            the submitter, as in submitter= of the runs
  division=NAME       closed (the default) or open
  category=NAME       available (on-premise), cloud (available in one), preview or research
  runs=FOLDER,...     out= folders of python -m suite.run, or folders that hold such; also as words of their own
  system=NAME         what to call the machine; default: the runs' hw= and framework, HW_FRAMEWORK
  description=FILE    what only a person knows of the machine: YAML, a line `cooling: air` for each field; below the
                      name of a system, what holds of that system alone
  token=TEXT          the round's token, that every run must have been made with
  out=FOLDER          default: submissions
  partial=true        write it also when something is missing; submission.json and this command say what
  sign=KEY            sign it with an ssh key (ssh-keygen -Y sign)
  states=TEXT         where a reviewer gets the states that the runs kept (checkpoints=keep): an address, or "on
                      request"; small ones go into the submission without it
  data_dir=FOLDER     where datasets lie; default: $SUITE_DATA, else the cache folder
  verify=SUBMISSION   check that a submission is what was sealed; with signers=FILE (ssh's allowed_signers, where ORG
                      stands before its key) also who signed it

Exit code: 0 written or verified, 1 something is broken or missing, 2 a mistake in the command.
"""


def main(argv: list[str]) -> int:
    """Make, add to, sign or verify a submission, as the command line `argv` says."""
    if not argv or {"-h", "--help"} & set(argv):
        print(HELP, end="")
        return 0
    options, words = _options(argv)
    if "verify" in options:
        if others := [f"{name}=" for name in options if name not in ("verify", "signers")] + words:
            raise UserError(f"verify= only looks at what is there: leave out {', '.join(others)}")
        return _verify(Path(options["verify"]), options.get("signers"))
    named = (*words, *map(os.path.expanduser, options.get("runs", "").split(",")))
    folders = [Path(each) for each in named if each]
    lacking = [f"{name}=" for name in ("org", "category") if not options.get(name)] + ["runs="] * (not folders)
    if lacking:
        raise UserError(f"{' and '.join(lacking)} must be given; suite submit --help explains them")
    org, division, category = options["org"], options.get("division", DIVISIONS[0]), options["category"]
    if problem := names.problem(org) or ("" if names.folder(org) else "has neither letters nor digits"):
        raise UserError(f"org={shown(org)} {problem}")
    one_of("division", division, DIVISIONS)
    one_of("category", category, STATUSES)
    partial = truth("partial", options.get("partial", "false"))
    results = collect(folders, options.get("system"))
    file = Path(options["description"]) if "description" in options else None
    target = Path(options.get("out", "submissions")) / names.folder(org)
    held = [path.stem for path in target.glob("systems/*.json")]
    told = describing.told(file, {each.system for each in results}, held)
    declared = Declared(org, division, category, options.get("token"), told, options.get("states"))
    with _alone(target), tempfile.TemporaryDirectory(prefix="suite-submit-") as folder, having_room(folder):
        staged = Path(folder) / target.name
        places, missing = stage(results, declared, target, staged)
        seal(staged, declared, places)
        checked = check(staged, org, options.get("data_dir"))
        checked.missing[:0] = missing
        if checked.broken or (checked.missing and not partial):
            return _refuse(checked, target)
        seal(staged, declared, places, checked.missing)
        if "sign" in options:
            signing.sign(staged, target, Path(options["sign"]))
        written = install(staged, target)
    _print(target, written, checked, options.get("data_dir"))
    return 0


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Lock the submission, since each command seals what it finds there. Raises UserError if another is at work, or
    if it cannot be written.
    """
    new = not target.parent.exists()
    with ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if new:
                stack.callback(_remove_empty, target.parent)
            busy = f"{target}: another command is at work there; wait for it"
            stack.enter_context(alone(target.with_name(f".{target.name}.lock"), busy))
        except OSError as error:
            raise UserError(
                f"{target.parent} cannot be written ({error.strerror}): mend that, or choose another out="
            ) from error
        yield


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # unless something was written
        folder.rmdir()


def _options(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options, and the words that are folders."""
    options, folders = split_options(argv, OPTIONS)
    for word in folders:
        if word.startswith("-"):
            raise UserError(f"{word}: options are written name=value; see suite submit --help")
    return options, folders


def _verify(folder: Path, signers: str | None) -> int:
    if not folder.is_dir():
        raise UserError(f"verify={folder}: no such folder")
    if not (folder / SEAL).exists():
        raise UserError(f"verify={folder} holds no {SEAL}: name the folder of one submission")
    found = list(findings(folder))
    for finding in found[:MAX_LISTED]:
        print(f"{shown(finding.file)}: expected {shown(finding.expected)}, found {shown(finding.found)}")
    if found:
        print(f"{folder}: NOT what was sealed, {format_count(len(found), 'difference')}")
        return NOT_WRITTEN
    print(f"{folder}: every file is what was sealed")
    if signers is not None:
        try:
            print(signing.verify(folder, Path(signers)))
        except MalformedError as error:  # the seal changed since it was checked
            raise UserError(str(error)) from error
    elif (folder / SIGNATURE).exists():
        print("it bears a signature; signers=FILE checks whose")
    return 0


def _refuse(checked: Checked, target: Path) -> int:
    if checked.broken:
        print("What breaks a rule:", *_listed(checked.broken), sep="\n  ")
    if checked.missing:
        print("What is missing:", *_listed(checked.missing), sep="\n  ")
    if any(each.startswith("systems/") for each in checked.missing):
        print("Fields of systems/ that only a person knows go to a file, a line `field: text` each: description=FILE")
    more = "" if checked.broken else "; partial=true writes it all the same, and says so"
    print(
        f"error: {target}: nothing was written, {len(checked.broken)} broken, {len(checked.missing)} missing{more}",
        file=sys.stderr,
    )
    return NOT_WRITTEN


def _listed(lines: Sequence[str]) -> list[str]:
    left = len(lines) - MAX_LISTED
    return [*lines[:MAX_LISTED], *([f"and {left} more"] if left > 0 else [])]


def _print(target: Path, written: Sequence[str], checked: Checked, data_dir: str | None) -> None:
    state = "partial" if checked.missing else "complete"
    files = f"{format_count(len(written), 'file')} written" if written else "nothing to add"
    print(f"{target}: {state}, {files}")
    for result in checked.review.results:
        reached = sum(run.converged for run in result.runs)
        noisy = sum(bool(run.summary.noise) for run in result.runs)
        marks = f", {noisy} NOISY" if noisy else ""
        print(f"  {result.path}: {reached} of {len(result.runs)} runs reached the target{marks}", end="")
        print(f", time to quality {score(result)}" if result.score_s is not None else ", no score")
    if checked.missing:
        print("Missing:", *_listed(checked.missing), sep="\n  ")
    if checked.remarks:
        print("Notes:", *_listed(checked.remarks), sep="\n  ")
    quoted = shlex.quote(str(target))
    print(f"review    suite review {quoted}{data_option(data_dir)}")
    if (target / SIGNATURE).exists():
        print(f"signed    {os.path.join(target, SIGNATURE)}; suite submit verify={quoted} signers=FILE")
    else:
        print("sign      suite submit, the same command, with sign=KEY")


if __name__ == "__main__":
    command(main)
