"""The server of a model, and the client that asks it."""

import os

import psutil
import pytest

from suite.serve.web import here


@pytest.mark.parametrize(("later", "found"), [(0.0, (os.getpid(),)), (60.0, ())], ids=["here", "elsewhere"])
def test_a_server_is_on_this_machine_where_its_process_began_here(later, found):
    began = psutil.Process().create_time() + later
    assert here({"pid": os.getpid(), "began": began}) == found
