"""Curves of quality as one SVG file: self-contained, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.plots import charts
from suite.plots.templates import environment

GAP, HEAD = 24, 52  # pixels between the two drawings, and above them


@dataclass(frozen=True)
class Figure:
    """A benchmark's curves, over samples and, where that is known, over time.

    `names` are the frameworks in the order of their kinds of line. `ends` has each curve's end mark: a `dot` at the
    target, a `ring` if the machine was noisy as well, a `cross` short of it. `remarks` says so in words.
    """

    title: str
    charts: list[charts.Chart]
    names: list[str]
    ends: list[str]
    remarks: str


def svg(figures: Sequence[Figure]) -> str:
    """The drawing of all figures, a row for each."""
    return environment().get_template("curves.svg").render(figures=figures, c=charts, gap=GAP, head=HEAD)
