"""Whose code an audit takes: that of the task in the package, and nothing from elsewhere."""

import os

import pytest

from suite.audit.code import Code, _packed
from suite.errors import UserError
from tests.rules.evidence_maker import write_seal


def package(folder, implementation):
    write_seal(folder, results=[{"path": "results/s/b", "implementation": implementation}])
    return folder


def test_of_a_package_only_code_of_the_task_is_taken(tmp_path):
    at = tmp_path / "benchmarks/b/implementations/1"
    for name in (
        "reference_impls/speech/torch.py",
        "reference_impls/recipe.py",
        "reference_impls/translation/torch.py",
        "suite/harness/loop.py",
        "numpy.py",
        "tasks/speech/__init__.py",
        "reference_impls/speech/weights.bin",
    ):
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_text(name)
    os.symlink("/etc/passwd", at / "reference_impls/speech/shared.py")
    found = _packed(package(tmp_path, "benchmarks/b/implementations/1"), "results/s/b", "speech")
    assert sorted(found.files) == [
        "reference_impls/recipe.py",
        "reference_impls/speech/torch.py",
        "tasks/speech/__init__.py",
    ]
    installed = Code("", found.files).install(tmp_path / "installed")
    assert (installed / "tasks/__init__.py").exists()


@pytest.mark.parametrize("place", ["../outside", "{}/outside", "benchmarks/../../outside", "results/s/b", None, 3])
def test_no_code_is_taken_from_elsewhere_than_the_package_s_benchmarks(tmp_path, place):
    for folder in ("outside", "package/results/s/b", "package/benchmarks"):
        (tmp_path / folder / "reference_impls/speech").mkdir(parents=True)
        (tmp_path / folder / "reference_impls/speech/torch.py").write_text("STOLEN = 1\n")
    implementation = place.format(tmp_path) if isinstance(place, str) else place
    assert _packed(package(tmp_path / "package", implementation), "results/s/b", "speech") is None


@pytest.mark.parametrize("place", ["benchmarks/b", "benchmarks/b/reference_impls"])
def test_no_code_is_taken_through_a_link(tmp_path, place):
    (tmp_path / "outside/reference_impls/speech").mkdir(parents=True)
    (tmp_path / "outside/reference_impls/speech/torch.py").write_text("STOLEN = 1\n")
    (tmp_path / "package/benchmarks").mkdir(parents=True)
    (tmp_path / "package/benchmarks/b").symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match=f"{place} is a link"):
        _packed(package(tmp_path / "package", place), "results/s/b", "speech")
