"""The progress bar of a review."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from suite.rules.finding import Progress


@contextmanager
def bar(quiet: bool = False) -> Iterator[Progress]:
    """Show a bar on standard error, if that is a terminal and there are several logs. `quiet` hides it."""
    console = Console(stderr=True)
    columns = (*Bar.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    shown = Bar(*columns, console=console, transient=True)
    shown.disable = quiet or not console.is_terminal
    task = shown.add_task("review", total=None, visible=False)

    def show_progress(done: int, of: int) -> None:
        shown.update(task, completed=done, total=of, visible=of > 1)

    with shown:
        yield show_progress
