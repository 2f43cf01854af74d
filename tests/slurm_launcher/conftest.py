"""A login node: programs of the test that answer in place of SLURM's."""

import pytest

from suite import config
from suite.run import slurm

ANSWERS = """\
echo x >> asked
case $(grep -c x asked) in
  1) echo JobState=RUNNING ExitCode=0:0 ;;
  2) echo "slurm_load_jobs error: $PROBLEM" >&2; exit 1 ;;
  *) echo JobState=FAILED ExitCode=3:0 ;;
esac
"""


@pytest.fixture
def login(tmp_path, monkeypatch):
    """A folder where `sbatch` leaves the script that it is given."""
    sbatch = "for each; do script=$each; done; cp $script script; echo Submitted batch job 7"
    for name, script in (("srun", ""), ("sbatch", sbatch), ("scontrol", ANSWERS)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(slurm, "_EVERY_S", 0.0)
    return tmp_path


def launched(hw="cpu", nodes=1, **options):
    system = config.system(hw).model_copy(update={"nodes": nodes})
    return slurm.launch(["task=translation"], system, options)
