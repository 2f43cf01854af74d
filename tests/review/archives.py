"""Archives packed from a folder or from single members, and what refuses them."""

import io
import tarfile
import zipfile

import pytest

from suite.errors import UserError
from suite.review.__main__ import main


def packed(path, folder):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for each in sorted(folder.rglob("*")):
                zipped.write(each, each.relative_to(folder.parent))
    else:
        mode = {".gz": "w:gz", ".tgz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz", ".tar": "w"}[path.suffix]
        with tarfile.open(path, mode) as tar:
            tar.add(folder, folder.name)
    return path


def of_members(path, *members, content=b""):
    with tarfile.open(path, "w") as tar:
        for member in members:
            member.size = len(content) if member.isreg() and not member.size else member.size
            tar.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return path


def member(name, kind=tarfile.REGTYPE, **fields):
    made = tarfile.TarInfo(name)
    made.type = kind
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def refused(path, match):
    with pytest.raises(UserError, match=match) as error:
        main([str(path)])
    assert "\n" not in str(error.value)
