"""Mutants of the chapter on implementations that are not the reference."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import metadata
from typing import Any

from suite.config import logkeys
from suite.store.code import CODE
from tests.rules.editor import Evidence
from tests.rules.mutants.registry import breaks, drop, index_of, rewrite
from tests.rules.restarted import signalled


def own(change: Callable[[Evidence], object]) -> Callable[[Evidence], None]:
    """The change, made to a run of an implementation of one's own."""

    def mutate(run: Evidence) -> None:
        change(rewrite(run, own=True))

    mutate.__name__ = change.__name__
    return mutate


def told(run: Evidence, change: Callable[[dict[str, Any]], object]) -> None:
    """Let the configuration tell otherwise of the implementation."""
    run.edit_config(lambda values: change(values["implementation"]))


@breaks("implementation.1")
@own
def another_name_in_the_log(run):
    run.edit(logkeys.IMPLEMENTATION, lambda record: record.update(value="theirs"))


@breaks("implementation.1")
@own
def another_sum_in_the_log(run):
    run.edit(logkeys.IMPLEMENTATION, lambda record: record["metadata"]["files"].update({"model.py": "0" * 64}))


@breaks("implementation.1")
@own
def a_revision_that_the_configuration_hides(run):
    run.edit(logkeys.IMPLEMENTATION, lambda record: record["metadata"].update(revision="1" * 40))


@breaks("implementation.1")
@own
def another_implementation_described(run):
    run.edit_system(lambda values: values["implementation"].update(name="theirs"))


@breaks("implementation.1")
@own
def none_described(run):
    run.edit_system(lambda values: values.pop("implementation"))


@breaks("implementation.1")
@own
def no_line_of_it(run):
    run.edit_log(drop(logkeys.IMPLEMENTATION))


@breaks("implementation.1")
def an_implementation_that_the_configuration_hides(run):
    def add(records):
        at = index_of(records, logkeys.CONFIG) + 1
        records.insert(at, {**records[at], "key": logkeys.IMPLEMENTATION, "value": "ours", "metadata": {}})

    run.edit_log(add)


@breaks("implementation.1")
def an_implementation_that_only_the_description_has(run):
    run.edit_system(lambda values: values.update(implementation={"name": "ours"}))


def everywhere(run: Evidence, **changes: Any) -> None:
    """Let configuration, log and system description tell otherwise of the implementation."""
    told(run, lambda values: values.update(changes))
    run.edit_system(lambda values: values["implementation"].update(changes))
    name = changes.pop("name", "ours")
    run.edit(logkeys.IMPLEMENTATION, lambda record: (record.update(value=name), record["metadata"].update(changes)))
    run.edit(logkeys.IMPLEMENTATION_AFTER, lambda record: record.update(value=name))


@breaks("implementation.1")
@own
def another_framework_imported(run):
    everywhere(run, imports={"tensorflow": None})


@breaks("implementation.1")
@own
def no_framework_imported(run):
    everywhere(run, imports={"numpy": metadata.version("numpy")})


@breaks("implementation.1")
@own
def a_version_that_is_not_installed(run):
    everywhere(run, imports={"torch": "0.0.1"})


@breaks("implementation.1")
@own
def an_entry_that_is_no_file_of_it(run):
    everywhere(run, entry="other.py")


@breaks("implementation.1")
@own
def the_name_of_the_reference(run):
    everywhere(run, name="reference")


@breaks("implementation.1")
@own
def a_file_out_of_the_folder(run):
    everywhere(run, files={"__init__.py": "0" * 64, "../model.py": "0" * 64})


@breaks("implementation.1")
@own
def sums_that_are_none(run):
    everywhere(run, files={"__init__.py": "x"})


@breaks("implementation.1")
@own
def more_files_than_a_person_reads(run):
    everywhere(run, files={f"{at}.py": "0" * 64 for at in range(300)} | {"__init__.py": "0" * 64})


@breaks("implementation.1")
@own
def a_text_for_an_implementation(run):
    run.edit_config(lambda values: values.update(implementation="ours"))


@breaks("implementation.2")
@own
def other_bytes(run):
    with (run.folder / CODE / "model.py").open("a") as file:
        file.write("# harmless\n")


@breaks("implementation.2")
@own
def a_file_less(run):
    (run.folder / CODE / "model.py").unlink()


@breaks("implementation.2")
@own
def a_file_more(run):
    (run.folder / CODE / "more").mkdir()
    (run.folder / CODE / "more" / "data.txt").write_text("1\n")


@breaks("implementation.2")
@own
def no_code(run):
    shutil.rmtree(run.folder / CODE)


@breaks("package.5")
def code_of_the_reference(run):
    (run.folder / CODE).mkdir()
    (run.folder / CODE / "__init__.py").write_text("pass\n")


@breaks("implementation.3")
@own
def code_that_changed(run):
    run.edit(logkeys.IMPLEMENTATION_AFTER, lambda record: record["metadata"].update(changed=["model.py"]))


@breaks("implementation.3")
@own
def nothing_said_of_it_afterwards(run):
    run.edit_log(drop(logkeys.IMPLEMENTATION_AFTER))


@breaks("implementation.3")
@own
def nothing_said_of_it_since_a_signal(run):
    signalled(run)
    said = lambda records: [each for each in records if each["key"] == logkeys.IMPLEMENTATION_AFTER]  # noqa: E731
    run.edit_log(lambda records: records.remove(said(records)[-1]))


@breaks("implementation.3")
@own
def another_one_afterwards(run):
    run.edit(logkeys.IMPLEMENTATION_AFTER, lambda record: record.update(value="theirs"))
