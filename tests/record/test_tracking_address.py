"""Where MLflow is, and how that is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from suite.record.tracking_server import tracking_uri, without_secrets


@pytest.mark.parametrize(
    "address",
    [
        "http://me:secret@host:5000",
        "http://me:p@secret@host:5000",
        "postgresql://me:p/secret@host/db",
        "postgresql://host/db?user=me&password=secret",
        "mysql://me:secret@host/db?ssl_ca=a:b&passwd=secret",
    ],
)
def test_an_address_is_told_without_its_password(address: str) -> None:
    assert "secret" not in without_secrets(f"cannot reach {address}")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgresql+psycopg2://me:my secret@host:1/db", "postgresql+psycopg2://***@host:1/db"),
        ("postgresql:///db?host=/tmp&password=my secret", "postgresql:///db?***"),
    ],
)
def test_a_password_with_a_space_is_not_told_either(monkeypatch: pytest.MonkeyPatch, address: str, told: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    assert without_secrets(f"cannot reach {address}") == f"cannot reach {told}"


def test_a_file_is_told_with_its_path() -> None:
    for file in ("sqlite:////home/me@example.org/mlflow.db", "sqlite:////me@example.org/mlflow.db"):
        assert without_secrets(f"in MLflow at {file}: 1 run") == f"in MLflow at {file}: 1 run"


def test_a_question_mark_in_the_working_folder_s_path_does_not_end_the_database_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "a?b").mkdir()
    monkeypatch.chdir(tmp_path / "a?b")
    assert Path(str(make_url(tracking_uri()).database)).resolve() == tmp_path / "a?b" / "mlflow.db"
