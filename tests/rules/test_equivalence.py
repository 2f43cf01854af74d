"""What holds an implementation of one's own to the reference is asked for where a package brings that."""

from suite.record.equivalence import FILE
from suite.rules.reading import PACKAGE, Evidence
from suite.rules.verdict import review
from tests.rules.evidence_maker import held_to_the_reference
from tests.rules.found import ALWAYS, rules_of
from tests.rules.mutants.benchmark import open_division
from tests.rules.mutants.equivalence import bounded
from tests.rules.mutants.registry import rewrite


def findings(run, package):
    read = Evidence.read(run.folder)
    read.package = package
    return [each for each in PACKAGE.findings([read]) if each.rule == "equivalence.1"]


def test_in_a_package_it_must_be_there(run):
    own = rewrite(run, own=True)
    assert findings(own, "") == []
    (own.folder / FILE).write_text(held_to_the_reference("bf16", found=0.05).model_dump_json())
    found = [(each.severity, each.expected, each.found) for each in findings(own, "")]
    assert found == [("fail", f"a step, in {name}: at most 0.01", "0.05") for name in ("fp32", "bf16")]
    (own.folder / FILE).unlink()
    assert {each.severity for each in findings(own, "")} == {"fail"}
    assert {each.severity for each in findings(own, None)} == {"note"}


def test_a_trial_that_found_nothing_is_none(run):
    own = rewrite(run, own=True)
    (own.folder / FILE).write_text(held_to_the_reference("bf16", found=None).model_dump_json())
    found = [(each.severity, each.expected, each.found) for each in findings(own, "")]
    assert found == [("fail", f"trials in {name}", "none") for name in ("bf16", "fp32")]


def test_no_run_hides_what_another_lacks(run):
    own = rewrite(run, own=True)
    first, second = (Evidence.read(own.folder, label) for label in ("run_1", "run_2"))
    first.package = second.package = ""
    told = held_to_the_reference("bf16", found=0.05)
    trials = told.comparisons[0].trials * 1000
    many = told.comparisons[0].model_copy(update={"trials": trials})
    first.equivalence, second.equivalence = told.model_copy(update={"comparisons": (many,)}), None
    found = [each.file for each in PACKAGE.findings([first, second], apart=True) if each.rule == "equivalence.1"]
    assert found.count(f"run_2/{FILE}") == 1


def test_draws_of_its_own_widen_the_bound_of_no_step(run):
    own = rewrite(run, own=True)
    told = bounded(5.0, found=4.0)
    drawn = told.comparisons[0].model_copy(update={"own_draws": True})
    (own.folder / FILE).write_text(told.model_copy(update={"comparisons": (drawn,)}).model_dump_json())
    assert [each.found for each in findings(own, "")] == ["5.0", "5.0"]


def test_a_format_whose_bounds_nobody_measured_leaves_the_question_open(run):
    own = rewrite(run, own=True)
    own.edit_config(lambda values: values.update(precision="fp8_rowwise"))
    (own.folder / FILE).write_text(held_to_the_reference("fp32").model_dump_json())
    for package, severity in (("", "error"), (None, "note")):
        (found,) = findings(own, package)
        assert (found.severity, found.found) == (severity, "bounds not measured for fp8_rowwise")
    (own.folder / FILE).write_text(held_to_the_reference("fp32", found=0.05).model_dump_json())
    assert [each.severity for each in findings(own, "")] == ["fail", "error"]


def test_the_open_division_asks_for_none(run):
    own = rewrite(run, own=True)
    (own.folder / FILE).unlink()
    open_division(own)
    assert findings(own, "") == []


def test_a_file_that_is_no_comparison_is_malformed(run):
    own = rewrite(run, own=True)
    for content in ('{"name": 1}', "[]", "{", '{"suite_version": "1", "name": "x", "sha256": "y", "comparisons": [1]}'):
        (own.folder / FILE).write_text(content)
        assert rules_of(review(own.folder).findings, but=ALWAYS) == {"package.3", "equivalence.1"}
