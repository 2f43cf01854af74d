"""A command of the suite with the eighth task: `python -m tests.eighth_task run task=parity ...`."""

import sys

from suite.errors import command
from tests.eighth_task import install

install()
name = sys.argv[1]
sys.argv = [name, *sys.argv[2:]]
if name == "run":
    from suite.run.__main__ import main
elif name == "review":
    from suite.review.__main__ import main
elif name == "check":
    from suite.check.__main__ import main
command(main)
