"""On PYTHONPATH: every Python that starts has the eighth task, whoever starts it, a launcher or the suite."""

from tests.eighth_task import install

install()
