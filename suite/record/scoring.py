"""The score of a result: MLPerf's olympic mean."""

from __future__ import annotations

from collections.abc import Sequence

DROPS_FROM = 3  # runs; of fewer none can be dropped


def olympic_mean(times: Sequence[float | None]) -> float | None:
    """The mean of `times` without the fastest and the slowest; None stands for a run that did not converge.

    One such run may be the dropped slowest, a second makes the result None. Fewer than three runs leave nothing to
    drop: their plain mean, None if one did not converge. No runs: None.
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
    """What a score of so many runs is called: of fewer than three none is dropped, and it is no olympic mean."""
    if runs == 1:
        return "1 run"
    return f"{'olympic mean' if runs >= DROPS_FROM else 'mean'} of {runs:,} runs"
