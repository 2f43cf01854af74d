"""The score of a result: MLPerf's olympic mean."""

from __future__ import annotations

from collections.abc import Sequence

DROPS_FROM = 3  # runs; of fewer none can be dropped


def olympic_mean(times: Sequence[float | None]) -> float | None:
    """The mean of `times` without the fastest and the slowest; None stands for a run that did not converge.

    One such run is dropped as the slowest; a second makes the result None. With fewer than three runs nothing is
    dropped: the result is their plain mean, or None if one did not converge. Without runs it is None.
    """
    converged = sorted(time for time in times if time is not None)
    lost = len(times) - len(converged)
    if len(times) >= DROPS_FROM:
        if lost > 1:
            return None
        kept = converged[1:] if lost else converged[1:-1]
    else:
        kept = [] if lost else converged
    return sum(kept) / len(kept) if kept else None


def mean_of(runs: int) -> str:
    """What a score of so many runs is called; with fewer than three none is dropped, so it is not an olympic mean."""
    if runs == 1:
        return "1 run"
    return f"{'olympic mean' if runs >= DROPS_FROM else 'mean'} of {runs:,} runs"
