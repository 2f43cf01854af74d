"""MLCommons' rule files, which the installed `mlperf-logging` wheel ships and `rule_files.yaml` pins.

The files hold Python that is compiled (`compiling`). So only bytes whose sha256 is in our table are ever handed on: a
file that was changed or taken away is refused, and one that was added is never read.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import metadata, resources
from pathlib import Path

import yaml

from suite.errors import UserError, unknown

PREFIX = "mlperf-"
WHEEL = "mlperf-logging"
WITHOUT_RULES = "mlperf-0.5"  # its lines are read and scored; the wheel ships no rules for it

_FOLDER = re.compile(rb"training_\d+\.\d+\.\d+(?=/)")
_TABLE = Path(__file__).with_name("rule_files.yaml")


@cache
def _table() -> tuple[str, dict[str, str]]:
    """The pinned version of the wheel and the sha256 of each rule file by its name, as `training_5.1.0/common.yaml`."""
    table = yaml.safe_load(_TABLE.read_text())
    return table["version"], table["sha256"]


def rulesets() -> list[str]:
    """The names that a review can ask for, oldest first: `mlperf-0.5`, `mlperf-0.6`, ... `mlperf-6.1`."""
    rounds = {name.partition("/")[0].removeprefix("training_").removesuffix(".0") for name in _table()[1]}
    return [WITHOUT_RULES, *(PREFIX + each for each in sorted(rounds))]


def folder(ruleset: str) -> str:
    """The folder of a ruleset in the wheel: `training_5.1.0` for `mlperf-5.1`."""
    return f"training_{ruleset.removeprefix(PREFIX)}.0"


def known(ruleset: str) -> str:
    """The name that `rulesets` has for `ruleset`, which may also be given as `5.1`, `v5.1` or `mlperf-5.1.0`.

    Raises UserError if there is none.
    """
    short = ruleset.removeprefix(PREFIX).removeprefix("v")
    if short.count(".") == 2:
        short = short.removesuffix(".0")
    if PREFIX + short not in rulesets():
        raise unknown("ruleset", ruleset, rulesets())
    return PREFIX + short


@cache
def wheel_version() -> str:
    """The version of the installed wheel. Raises UserError unless it is the pinned one."""
    pinned, found = _table()[0], metadata.version(WHEEL)
    if found != pinned:
        raise UserError(
            f"{WHEEL} {pinned} holds the rules of MLPerf, installed is {found}: pip install {WHEEL}=={pinned}"
        )
    return found


def sums(ruleset: str) -> dict[str, str]:
    """The sha256 of each rule file that a review by `ruleset` may use, by its name."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents(ruleset).items()}


def contents(ruleset: str) -> dict[str, bytes]:
    """The rule files of `ruleset` by name, with those of the older rounds that they refer to.

    Raises UserError if the wheel or a file is not the pinned one.
    """
    found: dict[str, bytes] = {}
    folders, done = [folder(ruleset)], set()
    while folders:
        at = folders.pop()
        if at not in done:
            done.add(at)
            here = {name: _content(name) for name in _table()[1] if name.startswith(at + "/")}
            folders += (match.decode() for content in here.values() for match in _FOLDER.findall(content))
            found |= here
    return found


def _content(name: str) -> bytes:
    version = wheel_version()
    try:
        content = resources.files("mlperf_logging.compliance_checker").joinpath(name).read_bytes()
    except OSError:
        content = b""
    if hashlib.sha256(content).hexdigest() != _table()[1][name]:
        mend = f"pip install --force-reinstall {WHEEL}=={version}"
        raise UserError(f"rule file {name} of {WHEEL} is not the one that was released: {mend}")
    return content
