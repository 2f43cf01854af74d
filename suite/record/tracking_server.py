"""Find and ask MLflow's server, and say in one line what goes wrong there."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from filelock import AcquireReturnProxy, FileLock, Timeout

from suite.errors import UserError
from suite.store.disk import partial

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

SQLITE = "sqlite:///"
DEFAULT_URI = f"{SQLITE}mlflow.db"
METRICS_PER_REQUEST = 900  # MLflow's limit is 1000, tags included
PATIENCE_S = 60.0  # for another process that is making the same experiment or result, which takes it a moment

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


class BehindError(Exception):
    """MLflow does not have everything; the text is one line that says why. Another attempt may succeed."""


def tracking_uri() -> str:
    """`MLFLOW_TRACKING_URI`, or the SQLite file in the working folder; a SQLite file with its full path.

    In a working folder with a `?` in its path, where an address would end, it stays relative to that.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
    sqlite, file = uri[: len(SQLITE)], uri[len(SQLITE) :]
    if sqlite != SQLITE or "?" in os.getcwd():
        return uri
    return f"{SQLITE}{os.path.abspath(file)}"


def written_here() -> list[Path]:
    """Where MLflow writes on this machine: its SQLite file and folder of artifacts, or its store; nowhere for a server.

    An experiment that is there already may keep its artifacts elsewhere.
    """
    uri = tracking_uri()
    if uri.startswith(("http", "databricks")):
        return []
    scheme, colon, path = uri.partition(":")
    if scheme == "file" or not colon:
        return [Path(unquote(path.removeprefix("//")) if colon else uri)]
    database = [Path(uri.removeprefix(SQLITE))] if uri.startswith(SQLITE) else []
    return [*database, Path("mlruns")]


def without_secrets(text: str) -> str:
    """`text` without tokens, and without the user, the password and the query, which may hold both, of its addresses.

    Only in `tracking_uri()` may they hold a space.
    """
    uri = tracking_uri()
    return re.sub("Bearer .*", "Bearer ***", _masked(text.replace(uri, _masked(uri, ".")), r"\S"))


def _masked(text: str, character: str) -> str:
    without_user = re.sub(rf"(?<!/)//(?!/){character}*@", "//***@", text)
    return re.sub(rf"(/{character}*?\?){character}+", r"\1***", without_user)


def connect() -> MlflowClient:
    """MLflow's client, with MLflow's own output and telemetry off."""
    os.environ |= _SETTINGS
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # an attempt that failed is repeated as a whole
    for name in ("mlflow", "alembic", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    from mlflow import MlflowClient  # slow to import
    from mlflow.store.db.db_types import DATABASE_ENGINES

    uri = tracking_uri()
    if uri.startswith(tuple(DATABASE_ENGINES)):
        from mlflow.store.db import utils

        utils.MAX_RETRY_COUNT = 3  # of MLflow's ten, which keep silent for 101 s about a database that cannot be opened
        with locked("tables", PATIENCE_S):  # the first client makes them; two at once would break them for good
            if uri.startswith(SQLITE) and "?" not in uri and not (file := Path(uri.removeprefix(SQLITE))).exists():
                part = partial(file)
                part.parent.mkdir(parents=True, exist_ok=True)
                part.write_bytes(b"")  # MLflow cannot go on with half the tables, and may have the file open still
                MlflowClient(f"{SQLITE}{part}").search_experiments(max_results=1)
                part.replace(file)
            return MlflowClient(uri)
    return MlflowClient(uri)


@contextmanager
def reached() -> Iterator[None]:
    """Raise whatever goes wrong between here and the server's disk as BehindError."""
    try:
        yield
    except (UserError, BehindError):
        raise
    except Exception as error:  # MLflow, SQLAlchemy, requests, drivers and sockets raise errors of their own families
        lines = [line for line in str(error).splitlines() if not line.startswith("(raised as a result of ")]  # advice
        reason = next(filter(None, lines), type(error).__name__)
        said = f"MLflow at {without_secrets(tracking_uri())}: {without_secrets(reason)[:300]}"
        raise BehindError(said) from error


def locked(name: str, patience_s: float) -> AcquireReturnProxy[FileLock]:
    """The lock on `name` at this tracking server, until its block ends or `lock.release()`. Raises BehindError."""
    folder = Path(tempfile.gettempdir()) / f"suite-sync-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / hashlib.sha256(f"{name} {tracking_uri()}".encode()).hexdigest()[:32]
    try:
        return FileLock(path, patience_s, 0o600, fallback_to_soft=False).acquire()
    except Timeout:
        raise BehindError(f"another process is bringing {name} into MLflow") from None


def experiment(client: MlflowClient, benchmark: str) -> str:
    """The id of the experiment `MLFLOW_EXPERIMENT_NAME`, or of the benchmark's own, made if need be."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or benchmark
    found = client.get_experiment_by_name(name)
    if found is None:
        with locked(f"experiment {name}", PATIENCE_S):
            found = client.get_experiment_by_name(name)
            return str(found.experiment_id if found else client.create_experiment(name))
    if found.lifecycle_stage != "active":
        raise UserError(f"MLflow's experiment {name!r} is deleted: restore it, or set MLFLOW_EXPERIMENT_NAME.")
    return str(found.experiment_id)


def only(client: MlflowClient, experiment: str, tag: str, value: str) -> Run | None:
    """The run with a tag. A duplicate, left by a request that timed out and was carried out later, is deleted."""
    found = client.search_runs([experiment], f"tags.`{tag}` = '{value}'")
    if not found:
        return None
    best, *spare = sorted(found, key=lambda run: (-len(run.data.params) - len(run.data.metrics), run.info.run_id))
    for run in spare:
        client.delete_run(run.info.run_id)
    return best
