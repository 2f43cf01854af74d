"""From a login node: `-m hydra/launcher=slurm` submits the run as a SLURM job, shows its state and follows its log."""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from suite.config.models import System
from suite.errors import BY_SIGNAL, LOST, UserError, one_of, only_options, shown_path, unknown
from suite.record.summary import format_count
from suite.store import packages

LAUNCHER = "hydra/launcher="
_PREFIX = "slurm."
FOLDER = Path("runs/slurm")
_ENDS = {  # https://slurm.schedmd.com/job_state_codes.html: in all other states a job goes on, or waits
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT"),
}
FORGOTTEN = "FORGOTTEN"  # not a state of SLURM's: it no longer knows how the job ended
_EVERY_S = 10.0  # between two queries to SLURM, which serves all users, once a job takes long
_LOG_S = 60.0  # after a job's end, for its output to reach the login node: a network file system shows new files late
_SEAL_S = 60  # how long before the job's time limit the run is told to end
_OURS = {  # options of submitit that the run sets itself, or that would do nothing
    *("nodes", "ntasks_per_node", "additional_parameters", "setup", "teardown", "srun_args"),
    *("array_parallelism", "signal_delay_s", "stderr_to_stdout", "use_srun", "gpus_per_task", "num_gpus"),
}
_PROCESSORS = ("cpus_per_task", "cpus_per_gpu", "exclusive")


def split(argv: Sequence[str]) -> tuple[dict[str, str] | None, list[str]]:
    """SLURM's options, None if the command is not for SLURM, and the words of the run.

    Raises UserError for another launcher, and for SLURM's options that are without its launcher, not in submitit,
    given twice or without a value.
    """
    launchers = {word.removeprefix(LAUNCHER) for word in argv if word.startswith(LAUNCHER)}
    asked = [word for word in argv if word.startswith(_PREFIX)]
    prefixed = only_options(asked, {word.partition("=")[0] for word in asked}, f"{_PREFIX}time=60")
    options = {name.removeprefix(_PREFIX): value for name, value in prefixed.items()}
    words = [word for word in argv if not word.startswith((LAUNCHER, _PREFIX))]
    if not launchers:
        if options:
            raise UserError(f"{_PREFIX}{next(iter(options))}= is of a SLURM job: add -m {LAUNCHER}slurm")
        return None, words
    if launchers != {"slurm"}:
        raise unknown("launcher", ", ".join(sorted(launchers - {"slurm"})), ("slurm",))
    if options:
        _refuse_unknown(options)
    return options, [word for word in words if word not in ("-m", "--multirun")]


def launch(words: Sequence[str], system: System, options: Mapping[str, str]) -> int:
    """Submit the run of `words` to SLURM, follow it to its end, and return its exit code.

    Raises UserError if submitit or SLURM is missing, and if sbatch does not accept the job.
    """
    with warnings.catch_warnings(action="ignore"):  # submitit's: they advise options that are not the user's
        job, logs = _submitted(words, system, options)
    nodes = format_count(system.nodes, "node")
    print(f"job       {job}, {nodes} of {system.workers_per_node}; its log: {logs}/{job}_0_log.out")
    if system.accelerator and not options.keys() & set(_PROCESSORS):
        print(
            f"none of {', '.join(f'{_PREFIX}{name}=' for name in _PROCESSORS)} is given: where the partition sets "
            "none either a worker has one processor"
        )
    try:
        return _followed(job, logs)
    except KeyboardInterrupt:
        print(f"\njob {job} goes on. To see it: tail -F {logs}/{job}_*_log.out; to end it: scancel {job}")
        return BY_SIGNAL + 2


def _refuse_unknown(options: Iterable[str]) -> None:
    with suppress(ImportError):  # a plan needs no submitit
        from submitit import SlurmExecutor

        for name in options:
            one_of("option of slurm", name, sorted(SlurmExecutor._valid_parameters() - _OURS))


def _submitted(words: Sequence[str], system: System, options: Mapping[str, str]) -> tuple[str, Path]:
    try:
        import submitit
        from submitit.core.utils import FailedJobError
    except ImportError as error:
        raise UserError(f"{LAUNCHER}slurm needs submitit: {packages.with_extras('slurm')}") from error
    folder = FOLDER.resolve()
    if re.search(r"%[\w%]|\\", str(folder)):
        where = shown_path(str(folder))
        raise UserError(f"SLURM takes the % or \\ in {where}, the folder of its logs, for a pattern: start in another")
    try:
        executor = submitit.SlurmExecutor(folder)
    except RuntimeError as error:
        raise UserError(f"{LAUNCHER}slurm needs SLURM, which is not here ({error}): use a login node") from error
    given = {name: True if value == "true" else value for name, value in options.items()}  # exclusive has no value
    # srun does not inherit this from sbatch since SLURM 22.05
    own = {"srun_args": [f"--cpus-per-task={given['cpus_per_task']}"]} if "cpus_per_task" in given else {}
    gpus: dict[str, Any] = {}
    if system.accelerators_per_node and "gpu" not in options.get("gres", ""):
        gpus = {"gpus_per_node": system.accelerators_per_node}
    executor.update_parameters(
        **{"job_name": "suite", "time": None, **gpus, **own, **given},  # submitit's own limit would be five minutes
        nodes=system.nodes,
        ntasks_per_node=system.workers_per_node,
        stderr_to_stdout=True,
        additional_parameters={"signal": f"TERM@{_SEAL_S}"},
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    if "SLURM_JOB_ID" in os.environ:  # sbatch would hand this job's variables to the new one, whose srun obeys them
        for name in [each for each in os.environ if each.startswith("SLURM_") and each != "SLURM_CONF"]:
            del os.environ[name]
    paths = f"PYTHONPATH={os.pathsep.join(sys.path)}"  # modules come from where they do here, as in `started`
    try:  # as a command: submitit's own wrapper would handle the signals, and pickle the result
        job = executor._submit_command(
            shlex.join(["env", paths, sys.executable, "-P", "-u", "-m", "suite.run", *words])
        )
    except FailedJobError as error:
        said = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
        raise UserError(f"SLURM does not take the job: {said[-1].strip()}") from error
    return str(job.job_id), FOLDER


def _followed(job: str, logs: Path) -> int:
    """Show the job's state as it changes and what its workers print; return its exit code."""
    shown, read, told = "", dict[Path, int](), {"JobState": "PENDING", "ExitCode": "0:0"}
    until, wait_s = math.inf, 0.0
    while True:
        told = _told(job, told)
        state = told["JobState"] + (f" ({told['Reason']})" if told.get("Reason", "None") != "None" else "")
        if state != shown:
            print(f"job {job}   {state}", flush=True)
            shown = state
        _print_news(job, logs, read)
        if told["JobState"] in (*_ENDS, FORGOTTEN):
            until = min(until, time.monotonic() + _LOG_S)
            began = told.get("NodeList", "(null)") not in ("", "(null)")
            if read or not began or time.monotonic() >= until:
                code, number = map(int, told["ExitCode"].split(":"))
                return (BY_SIGNAL + number if number else code) or (0 if told["JobState"] == "COMPLETED" else LOST)
        wait_s = min(wait_s + 1.0, _EVERY_S)  # at first more often: a job may start, or fail, at once
        time.sleep(wait_s)


def _print_news(job: str, logs: Path, read: dict[Path, int]) -> None:
    """Print what the job's logs hold beyond the offsets `read`; a file can be opened before a listing shows it."""
    for path in sorted({logs / f"{job}_0_log.out", *logs.glob(f"{job}_*_log.out")}):
        with suppress(FileNotFoundError), path.open(errors="replace") as file:
            file.seek(read.get(path, 0))
            if news := file.read():
                print(news, end="", flush=True)
                read[path] = file.tell()


def _told(job: str, before: dict[str, str]) -> dict[str, str]:
    """What SLURM tells of a job: `before` while it does not answer, in the state FORGOTTEN once it has forgotten it."""
    asked = ["scontrol", "show", "job", job]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        lines = [line for line in done.stdout.splitlines() if not line.startswith("JobId=")]  # the job's name is there
        words = [word.split("=", 1) for line in lines for word in line.split() if "=" in word]
        return dict(reversed(words))  # the first of a name holds: a comment, which comes later, may hold others
    return {**before, "JobState": FORGOTTEN} if "Invalid job id" in done.stderr else before
