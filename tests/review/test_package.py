"""Folders of every layout: a package of several results is reviewed as one, and none is followed or read too far."""

import json
import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.errors import UserError
from suite.review.__main__ import main
from suite.rules.verdict import review
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import write_seal
from tests.rules.mutants import MUTANTS


@pytest.fixture
def package(sound_result, run, tmp_path):
    """A package: a result of five runs, a single run deeper down, and files that are neither."""
    folder = tmp_path / "package"
    shutil.copytree(sound_result, folder / "org" / "results" / "five")
    shutil.copytree(run.folder, folder / "org" / "results" / "one")
    (folder / "org" / "notes").mkdir()
    (folder / "org" / "notes" / "mine.json").write_text("{}")
    (folder / "README").write_text("")
    return folder


def test_the_page_and_the_findings_are_two_files(sound_result, tmp_path):
    both = str(tmp_path / "review")
    with pytest.raises(UserError, match="is to hold two things"):
        main([str(sound_result), "--html", both, "--sarif", both])


def test_every_result_of_a_package_is_reviewed(package, capsys):
    main([str(package), "--json"])
    made = json.loads(capsys.readouterr().out)
    five = [f"org/results/five/run_{index}/log.txt" for index in range(1, 6)]
    assert [log["path"] for log in made["logs"]] == [*five, "org/results/one/log.txt"]
    assert [(each["path"], each["runs"]) for each in made["scores"]] == [
        ("org/results/five", 5),
        ("org/results/one", 1),
    ]
    assert all((package / f["file"]).exists() for f in made["findings"])


def test_breach_in_a_package_is_named_by_its_path(package, capsys):
    MUTANTS["division.2"][0](Evidence(package / "org" / "results" / "five" / "run_3"))
    assert main([str(package), "--json"]) == 1
    made = json.loads(capsys.readouterr().out)
    (failed,) = [log for log in made["logs"] if log["verdict"] == "fail"]
    assert failed["path"] == "org/results/five/run_3/log.txt"
    assert "org/results/five/run_3/config.yaml" in {f["file"] for f in failed["findings"]}


def test_terminal_shows_each_result(package, capsys):
    main([str(package)])
    printed = capsys.readouterr().out
    assert "org/results/five  time to quality: 30.0 s (olympic mean of 5 runs); 5 converged" in printed
    assert "org/results/one/log.txt" in printed


def test_link_in_a_package_is_a_finding_and_not_followed(package):
    (package / "org" / "results" / "linked").symlink_to(package / "org" / "results" / "one")
    made = review(package)
    assert [f.file for f in made.findings if f.rule == "package.1"] == ["org/results/linked"]
    assert len(made.runs) == 6


def test_loop_of_links_ends(package):
    (package / "org" / "loop").symlink_to(package)
    assert [f.file for f in review(package).findings if f.rule == "package.1"] == ["org/loop"]


@pytest.mark.parametrize("sealed", [False, True])
def test_very_deep_folders_beside_evidence_end(run, sealed):
    path = run.folder
    if sealed:
        write_seal(path)
    descriptor = os.open(path, os.O_RDONLY)
    for _ in range(1500):  # deeper than Python recurses
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    try:
        assert review(run.folder).verdict in ("pass", "fail")
    finally:
        os.system(f"rm -rf '{run.folder}/d'")


@pytest.mark.parametrize("name", ["log.txt", "waivers.yaml", "run_1", "other"])
@pytest.mark.parametrize("kind", ["fifo", "sparse", "line", "loop", "folder"])
def test_odd_entry_anywhere_is_bounded(package, tmp_path, name, kind):
    path = package / "odd" / name
    path.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(10 << 30)
    elif kind == "line":
        with path.open("wb") as file:
            file.write(b":::MLLOG {")
            file.truncate(1 << 30)
    elif kind == "loop":
        path.symlink_to(path)
    else:
        (path / name).mkdir(parents=True)
    code = main([str(package), "--html", str(tmp_path / "page.html"), "--sarif", str(tmp_path / "log.sarif")])
    if kind == "loop" or (name != "other" and kind != "folder"):
        assert code == 1
    else:
        assert code in (1, 2)  # one is a copy of a run of five, in no package


NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 200
)


@settings(max_examples=30)
@given(layout=st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=3))
def test_no_names_of_folders_raise(sound_run, tmp_path_factory, capsys, layout):
    root = tmp_path_factory.mktemp("layout")
    folder = root / "package"
    for parts in layout:
        path = folder.joinpath(*parts)
        if not path.exists():
            shutil.copytree(sound_run.folder, path)
    page = root / "page.html"
    main([str(folder), "--json", "--html", str(page), "--sarif", str(root / "log.sarif")])
    made = json.loads(capsys.readouterr().out)
    assert made["logs"]
    assert all(log["path"].isprintable() for log in made["logs"])
    json.loads((root / "log.sarif").read_text())
