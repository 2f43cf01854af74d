"""Put a submission together in a separate folder, so that it can be checked before its place is written to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite import __version__
from suite.errors import UserError
from suite.record.evidence import LOG
from suite.record.names import REFERENCE
from suite.record.parsing import MalformedError, json_object
from suite.record.states import SMALL, STATES
from suite.rules import waivers
from suite.rules.claims import MAX_DESCRIPTION
from suite.rules.code import implementation
from suite.rules.reading import WAIVERS, Evidence
from suite.rules.seals import SEAL, Seal, findings
from suite.store.disk import MAX_FILE_BYTES, UnsafeFile, read_safely, sum_or_reason
from suite.store.sums import sha256
from suite.submit.code import Code, code
from suite.submit.collecting import Collected
from suite.submit.describing import Description, describe, empty, joined
from suite.submit.installing import BESIDE, mending


@dataclass(frozen=True)
class Declared:
    """What the owner of a submission declares. `token` is its round's; `told` is what they say of each system.

    `states` says where a reviewer gets those states of the runs that the submission does not contain.
    """

    org: str
    division: str
    category: str
    token: str | None
    told: Mapping[str, Mapping[str, str]]
    states: str | None = None


def stored(target: Path, declared: Declared) -> tuple[Seal | None, list[str]]:
    """The seal of the submission at `target`, None if there is none, and the paths of the files that it lacks.

    Removes what a killed command left beside its place. Raises UserError if a sealed file is not as it was sealed, or
    if the submission is not the declared one.
    """
    if not (target / SEAL).exists():
        return None, []
    for left in target.rglob(f".*{BESIDE}"):
        if left.is_file():
            left.unlink()
    differences = list(findings(target))
    seal = Seal.found(target)
    for finding in differences:
        if seal is None or finding.file in seal.files:
            raise _unlike(target / finding.file, finding.found)
    assert seal
    for name in ("org", "division", "category", "token"):
        if getattr(seal, name) != getattr(declared, name):
            raise UserError(f"{target} is of {name}={getattr(seal, name)}: give another out= for another submission")
    return seal, [finding.file for finding in differences]


def _unlike(path: Path, found: object) -> UserError:
    return UserError(f"{path} is not as {SEAL} has it: {found}; restore it")


def stage(
    results: Sequence[Collected], declared: Declared, target: Path, staged: Path
) -> tuple[list[dict[str, Any]], list[str]]:
    """Put the submission at `target` and the new `results` together in the folder `staged`, without a seal.

    Returns the seal's entry for each result, and what is missing in descriptions. Raises UserError if something would
    be overwritten.
    """
    seal, beyond = stored(target, declared)
    for path in seal.files if seal else ():
        (staged / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target / path, staged / path)
    places = {str(each.get("path")): each for each in seal.results} if seal else {}
    for result in results:
        there = places.get(result.place)
        if there and there.get("result_id") != result.result_id:
            raise UserError(
                f"{target / result.place} holds another result already: nothing is overwritten; {mending(target)}"
            )
        packed = code(result)
        _evidence(result, staged)
        _code(result, packed, staged)
        _description(result, declared, target, staged)
        places[result.place] = _said(result, packed, _states(result, staged) or declared.states)
    for path in beyond:  # a command that ended while it moved files into place leaves the same ones
        if sum_or_reason(target / path, MAX_FILE_BYTES) != sum_or_reason(staged / path, MAX_FILE_BYTES):
            raise _unlike(target / path, "another file")
    missing = [
        f"systems/{name}.json: {key}"
        for name in sorted({place.split("/")[1] for place in places})
        for key in empty(_read(staged / f"systems/{name}.json"))
    ]
    return [places[place] for place in sorted(places)], missing


def seal(staged: Path, declared: Declared, results: list[dict[str, Any]], missing: Sequence[str] = ()) -> None:
    """Write the seal over everything that `staged` holds."""
    files = {
        path.relative_to(staged).as_posix(): sha256(path)
        for path in sorted(staged.rglob("*"))
        if path.is_file() and path != staged / SEAL
    }
    values = {
        "version": 1,
        "org": declared.org,
        "division": declared.division,
        "category": declared.category,
        "token": declared.token,
        "suite_version": __version__,
        "missing": [*missing],
        "results": results,
        "files": files,
    }
    (staged / SEAL).write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _evidence(result: Collected, staged: Path) -> None:
    place = staged / result.place
    for at, folder in enumerate(result.runs):
        run, contents = place / f"run_{at + 1}", Evidence.read(folder).contents
        run.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (run / name).write_bytes(content)
        (place / f"result_{at}.txt").write_bytes(contents.get(LOG, b""))
        _waivers(folder, run)
    if result.folder not in result.runs:
        _waivers(result.folder, place)


def _states(result: Collected, staged: Path) -> str | None:
    """Pack the states that the runs kept if they are small in total. Return what the seal says of them, None if not."""
    kept = {
        Path(f"run_{at}", STATES, path.name): path
        for at, folder in enumerate(result.runs, 1)
        for path in sorted((folder / STATES).glob("*.npz"))
    }
    if not kept or sum(path.stat().st_size for path in kept.values()) > SMALL:
        return None
    for name, path in kept.items():
        (staged / result.place / name).parent.mkdir(parents=True, exist_ok=True)
        (staged / result.place / name).write_bytes(read_safely(path, SMALL))
    return f"{STATES}/ of each run"


def _waivers(source: Path, place: Path) -> None:
    """Copy the submitter's requests for waivers to the evidence, or remove those that are no longer made."""
    try:
        (place / WAIVERS).write_bytes(read_safely(source / WAIVERS, waivers.MAX_BYTES))
    except (OSError, UnsafeFile):
        (place / WAIVERS).unlink(missing_ok=True)


def _code(result: Collected, packed: Code, staged: Path) -> None:
    for name, content in packed.files.items():
        path = staged / implementation(result.benchmark.name, packed.name) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _description(result: Collected, declared: Declared, target: Path, staged: Path) -> None:
    where = f"systems/{result.system}.json"
    path = staged / where
    told = declared.told[result.system]
    made = describe(result, declared.org, declared.division, declared.category, told)
    if path.exists():
        made = joined(_read(path), made, told, where, mending(target))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(path: Path) -> Description:
    try:
        values = json_object(read_safely(path, MAX_DESCRIPTION))
    except (MalformedError, UnsafeFile) as error:
        raise UserError(f"{path.name} is no system description: {error}") from error
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _said(result: Collected, packed: Code, states: str | None) -> dict[str, Any]:
    return {
        "path": result.place,
        "benchmark": result.benchmark.name,
        "system": result.system,
        "framework": result.framework,
        "trained_by": result.contestant.name if result.contestant else REFERENCE,
        "runs": len(result.runs),
        "result_id": result.result_id,
        "revision": result.revision,
        "implementation": implementation(result.benchmark.name, packed.name),
        "code_missing": packed.missing,
        "states": states,
    }
