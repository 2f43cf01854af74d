"""docs/adding-a-task.md is true: its schema is the models', and its example keeps all promises."""

import ast
import json
import re

import yaml

from suite.check.__main__ import main
from suite.config import folder
from tests.schema import BEGIN, DOCUMENT, END, written


def test_the_schema_is_that_of_the_models():
    text = DOCUMENT.read_text()
    assert BEGIN in text
    assert END in text
    assert text == written(text), "conf/task has changed: python -m tests.schema writes its schema into the document"


def test_the_example_is_a_task_that_keeps_all_promises(without_tasks, capsys):
    """The three files of the document, as a reader would paste them; the sums are those that the check prints."""
    blocks = re.findall(r"`([\w./]+)`:\n\n```\w+\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    files = dict(blocks)
    assert set(files) == {"conf/task/sides.yaml", "tasks/sides/__init__.py", "reference_impls/sides/torch.py"}
    for name, text in files.items():
        path = without_tasks / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        if path.suffix == ".py":
            ast.parse(text)
    assert main(["task=sides", "--json"]) == 1
    (failed,) = (row for row in json.loads(capsys.readouterr().out) if row["status"] == "fail")
    declared = yaml.safe_load(files["conf/task/sides.yaml"])
    declared["scales"]["mini"]["dataset"] |= yaml.safe_load(failed["mend"])["scales"]["mini"]["dataset"]
    (without_tasks / "conf/task/sides.yaml").write_text(yaml.safe_dump(declared))
    folder.load.cache_clear()
    assert main(["task=sides", "--json"]) == 0
    folder.load.cache_clear()
