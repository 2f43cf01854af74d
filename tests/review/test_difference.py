"""What the review shows of an implementation that is not the reference: text, bounded, and only what trained."""

import hashlib
import shutil
from dataclasses import replace

import pytest

from suite.config.folder import ROOT
from suite.review import difference
from suite.review.__main__ import main
from suite.review.model import report
from suite.store.code import CODE
from tests.review.page import HOSTILE, page_of, sound
from tests.rules.evidence_maker import write_run, write_seal
from tests.rules.mutants.implementation import everywhere
from tests.rules.mutants.registry import rewrite

REFERENCE = ROOT / "reference_impls/image_classification/torch.py"


def trained_by(run, **files):
    """Let the run have been trained by these files, by their names without `.py`."""
    rewrite(run, own=True)
    texts = {f"{name}.py": text for name, text in files.items()}
    for name, text in texts.items():
        (run.folder / CODE / name).write_bytes(text.encode(errors="surrogatepass"))
    sums = {name: hashlib.sha256((run.folder / CODE / name).read_bytes()).hexdigest() for name in texts}
    for path in (run.folder / CODE).iterdir():
        if path.name not in texts:
            path.unlink()
    everywhere(run, files=sums)


def test_the_page_shows_each_file_against_the_reference_s(run, tmp_path):
    text = REFERENCE.read_text()
    changed = text.replace("EVAL_BATCH = 500", "EVAL_BATCH = 999  # ours")
    trained_by(run, __init__=changed, shared=(REFERENCE.with_name("shared.py")).read_text(), more="NEW = 1\n")
    assert report(run.folder).verdict == "pass"
    page = page_of(run.folder, tmp_path)
    sound(page)
    assert "__init__.py: 1 line added, 1 removed, against reference_impls/image_classification/torch.py" in page.text
    assert "-EVAL_BATCH = 500 +EVAL_BATCH = 999 # ours" in page.text
    assert "shared.py: as reference_impls/image_classification/shared.py" in page.text
    assert "more.py: 2 lines added, 0 removed, without a file like it in the reference" in page.text


def test_the_reference_has_no_such_chapter(run, tmp_path):
    assert "Implementations" not in page_of(run.folder, tmp_path).text


def test_hostile_text_stays_text(run, tmp_path):
    trained_by(run, __init__="import torch\n" + "\n".join(f"# {each}" for each in HOSTILE) + "\ndef build(): ...\n")
    page = page_of(run.folder, tmp_path)
    sound(page)
    assert "alert(1)" in page.text


def test_a_difference_is_bounded(run, tmp_path):
    trained_by(run, __init__="import torch\n" * 30_000 + "x" * 100_000)
    (made,) = difference.differences(report(run.folder), run.folder)
    (file,) = made.files
    assert len(file.lines) == difference.MAX_LINES
    assert file.left_out > 20_000
    assert max(len(line) for _, line in file.lines) <= difference.MAX_WIDTH
    sound(page_of(run.folder, tmp_path))


def test_what_stands_far_to_the_right_is_shown(run):
    trained_by(run, __init__=f"import torch\nx = 1{' ' * 1000}; y = 2\n")
    (made,) = difference.differences(report(run.folder), run.folder)
    (file,) = made.files
    assert "; y = 2" in "".join(line for kind, line in file.lines if kind == "added")
    assert file.added == 2


def test_a_line_of_any_length_hides_none_after_it(run):
    trained_by(run, __init__=f"TABLE = '{'a' * 700_000}'\nimport torch\nscore = 1\n")
    (made,) = difference.differences(report(run.folder), run.folder)
    (file,) = made.files
    assert ("added", "+score = 1") in file.lines
    assert file.left_out == 0


def test_all_differences_of_a_page_are_bounded(run, tmp_path, monkeypatch):
    monkeypatch.setattr(difference, "MAX_PAGE", 3000)
    files = {f"file_{number}": "x = 1\n" * 2500 for number in range(4)}
    trained_by(run, __init__="import torch\n", **files)
    (made,) = difference.differences(report(run.folder), run.folder)
    assert sum(len(file.lines) for file in made.files) <= 3000 + difference.MAX_LINES
    assert ["not drawn" in file.problem for file in made.files] == [False, False, False, True, True]
    sound(page_of(run.folder, tmp_path))


def test_no_result_of_many_is_left_out(run):
    trained_by(run, __init__="import torch\n")
    made = report(run.folder)
    assert len(difference.differences(replace(made, results=made.results * 25), run.folder)) == 25


def test_only_what_trained_is_shown(run, tmp_path):
    """Neither other bytes nor what a link leads to, though evidence names it."""
    trained_by(run, __init__="import torch\n", model="MODEL = 1\n")
    (tmp_path / "secret").write_text("secret\n")
    (run.folder / CODE / "model.py").unlink()
    (run.folder / CODE / "model.py").symlink_to(tmp_path / "secret")
    (run.folder / CODE / "__init__.py").write_text("import torch  # another\n")
    page = page_of(run.folder, tmp_path)
    assert "__init__.py is not the file that trained" in page.text
    assert "model.py is not there" in page.text
    assert "secret\n" not in page.text


def packed(run, package, place):
    """The run in a package that names its code at `place`."""
    result = package / "results/cpu/image_classification-mini"
    code = package / "benchmarks/image_classification-mini/implementations/code" / CODE
    shutil.copytree(run.folder, result / "run_1")
    shutil.copytree(result / "run_1" / CODE, code)
    shutil.rmtree(result / "run_1" / CODE)
    files = {f"{place}/{CODE}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in code.iterdir()}
    write_seal(package, results=[{"path": str(result.relative_to(package)), "implementation": place}], files=files)
    return package


def test_of_a_package_it_is_what_was_sealed(run, tmp_path):
    trained_by(run, __init__="import torch\n")
    package = packed(run, tmp_path / "package", "benchmarks/image_classification-mini/implementations/code")
    (made,) = difference.differences(report(package), package)
    assert [file.problem for file in made.files] == [""]


@pytest.mark.parametrize("place", ["../outside", "{}/outside", "a\0b", "\ud800", "x" * 5000, ""])
def test_no_path_out_of_a_package_is_followed(run, tmp_path, place):
    trained_by(run, __init__="import torch\nSTOLEN = 1\n")
    shutil.copytree(run.folder / CODE, tmp_path / "outside" / CODE)
    page = page_of(packed(run, tmp_path / "package", place.format(tmp_path)), tmp_path)
    sound(page)
    assert "STOLEN" not in page.text


def test_the_terminal_names_it(tmp_path, capsys):
    main([str(write_run(tmp_path / "run", own=True).folder)])
    said = "trained by ours in torch, 2 files: --html FILE shows how it differs from the reference, "
    said += "suite audit PATH run_code=true equivalence=true measures by how much"
    assert said in capsys.readouterr().out
