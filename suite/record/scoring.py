"""The score of a result: MLPerf's olympic mean."""

from __future__ import annotations

from collections.abc import Sequence


def olympic_mean(times: Sequence[float | None]) -> float | None:
    """The mean of `times` without the fastest and the slowest; None stands for a run that did not converge.

    One such run may be the dropped slowest, a second makes the result None. Fewer than three runs leave nothing to
    drop: their plain mean, None if one did not converge. No runs: None.
    """
    converged = sorted(time for time in times if time is not None)
    lost = len(times) - len(converged)
    if len(times) >= 3:
        if lost > 1:
            return None
        kept = converged[1:] if lost else converged[1:-1]
    else:
        kept = [] if lost else converged
    return sum(kept) / len(kept) if kept else None
