"""Makes or resumes the runs of a session, one after the other, and seals their evidence folders."""

from __future__ import annotations

import shlex
from contextlib import chdir
from pathlib import Path

from suite.errors import BrokenContract, Stopped, UserError, WorkerLost
from suite.harness import begun, checkpoint, contract, tail
from suite.harness.folder import has_run
from suite.harness.interrupt import interruptible
from suite.harness.run import Run
from suite.harness.session import Session
from suite.harness.training import train
from suite.measure.samples import SamplesError
from suite.record import evidence, tracking
from suite.record.mllog import is_interrupt, run_stop
from suite.record.summary import Summary, summarise


def complete(session: Session) -> tuple[list[Summary], int | None]:
    """Make or resume each run until a signal ends one; a run that ended by itself is left alone.

    Returns the runs' summaries, and the signal, if any, that ended the last run or arrived while it was ending: the
    command is to end too. Raises UserError if a folder cannot hold its run, Stopped for a signal before the clock
    has started.
    """
    summaries: list[Summary] = []
    ended_ms = 0  # time of the previous run's last line, in case the clock has been set back since
    stopped_by = None
    for index in range(1, len(session.plan.seeds) + 1):
        folder = session.plan.folder(index).absolute()
        log = begun.open_log(folder, ended_ms)
        stop = run_stop(log.lines)
        if stop is None or is_interrupt(stop) or not (folder / evidence.MANIFEST).exists():
            run = Run(session, index, folder, log)
            try:
                stopped_by = _finish(run)
            finally:
                if run.tracker:
                    run.tracker.close()
        ended_ms = log.lines[-1].time_ms
        summaries.append(summarise(log.lines))
        if stopped_by:
            break
    return summaries, stopped_by


def _finish(run: Run) -> int | None:
    """Do what is left of training, measure and seal; return the signal that arrived meanwhile, if any."""
    session, log, folder = run.session, run.log, run.session.plan.folder(run.index)
    resume = session.resume
    mend = f"mend that, then go on with {resume}"
    other = ", or with other code begin a new run" if session.own else ""
    with run.terminal, interruptible() as interrupted, chdir(Path.cwd()):  # the author's code may change it
        try:
            stop = run_stop(log.lines)
            if stop is None or is_interrupt(stop):
                train(run, interrupted)
            stop = tail.write(run)
            log.close()
            if not is_interrupt(stop):
                checkpoint.remove(run.folder)
            evidence.seal(run.folder, log.head)
        except WorkerLost as error:
            raise WorkerLost(f"{error}; go on with {resume}") from error
        except BrokenContract as error:
            again = f"Mend that, then go on with {resume}"
            raise UserError(f"{error} {'Mend that, and begin a new run' if session.own else again}") from error
        except contract.Refused as error:
            raise UserError(f"{error}; {mend}{other}") from error
        except SamplesError as error:
            raise UserError(f"{folder / evidence.POWER}: {error}; {mend}") from error
        except OSError as error:
            then = mend if has_run(session.plan.out) else "mend that, then give the command again"
            raise UserError(f"{folder}: {error.strerror or error}; {then}") from error
        except Exception as error:  # the author's code may raise anything
            error.add_note(f"{mend}{other}")
            raise
    by, behind = interrupted.by, False
    if run.tracker:
        try:
            with interruptible():
                behind = not run.tracker.finish(tracking.WAIT_S)
        except Stopped as stopped:  # the run has ended, and only the wait is cut short
            by, behind = stopped.number, True
    if behind:
        quoted = shlex.quote(str(run.folder))
        session.console.print(f"MLflow is behind; fill it in with: python -m suite.sync {quoted}", soft_wrap=True)
    return by
