"""Draw one evaluation episode of a LunarLander run: `python -m tasks.reinforcement_learning.draw RUN FILE.svg [LINE]`.

RUN is a run's evidence folder. The episode is that of line LINE of its predictions (the first, if not given), played
again from its seed and its actions.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import BadPrediction, OneLineParser, UserError, command
from suite.record.evidence import PREDICTIONS
from tasks.evidence import predicted
from tasks.reinforcement_learning import FIRST_EVALUATION_SEED, score
from tasks.reinforcement_learning.episode import Episode

_ENVIRONMENT = "LunarLander-v3"
_EVERY = 15  # steps between two pictures of the lander; it makes 50 in a second
_WIDTH, _HEIGHT = 20.0, 13.0 + 1 / 3  # of the world, in Box2D's units


def main(argv: list[str]) -> int:
    """Draw; see the module."""
    parser = OneLineParser(prog="python -m tasks.reinforcement_learning.draw", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("line", type=int, nargs="?", default=1)
    given = parser.parse_args(argv)
    _, episodes = predicted(given.run, "reinforcement_learning", ("small",))
    if not 1 <= given.line <= len(episodes):
        raise UserError(f"{given.run} has {len(episodes)} episodes, no line {given.line}")
    try:
        seed, actions = _played(episodes[given.line - 1])
    except BadPrediction as error:
        raise UserError(f"{given.run}: {PREDICTIONS}, line {given.line}: {error}") from error
    given.file.write_text(drawing(seed, actions))
    return 0


def _played(prediction: Any) -> tuple[int, list[int]]:
    """The seed and the actions of a prediction. Raises BadPrediction if it is not a whole episode."""
    seed = prediction.get("seed") if isinstance(prediction, dict) else None
    if type(seed) is not int or not 0 <= seed < 2 * FIRST_EVALUATION_SEED:
        raise BadPrediction(1, "not an episode with the seed of an evaluation")
    score([prediction], {"environment": np.array(_ENVIRONMENT), "test_seeds": np.array([seed])})
    return seed, [int(digit) for digit in prediction["actions"]]


def drawing(seed: int, actions: list[int]) -> str:
    """The SVG: the ground, the path of the lander, and the lander at every 15th step and at the end."""
    episode = Episode(_ENVIRONMENT)
    episode.begin(seed)
    world = episode.environment
    path, landers = [], []
    for step, action in enumerate([*actions, None]):
        path.append(tuple(world.lander.position))
        if step % _EVERY == 0 or action is None:
            landers += [_polygon(_outline(body)) for body in (*world.legs, world.lander)]
        if action is not None:
            episode.step(action)
    ground = [(0.0, 0.0), *(corner for part in world.sky_polys for corner in part[:2]), (_WIDTH, 0.0)]
    flags = [(x, world.helipad_y) for x in (world.helipad_x1, world.helipad_x2)]
    poles = [f'<path d="M{_points([(x, y)])}v-1l.6.25-.6.25"/>' for x, y in flags]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:.3f}" width="600">',
            f"<title>Seed {seed}: return {episode.total:.1f} after {len(actions)} steps</title>",
            '<rect width="100%" height="100%" fill="#10141c"/>',
            f'<g fill="#c9ccd3">{_polygon(ground)}</g>',
            f'<g fill="#f2c94c" stroke="#f2c94c" stroke-width=".06">{"".join(poles)}</g>',
            f'<polyline points="{_points(path)}" fill="none" stroke="#5aa9e6" stroke-width=".05"/>',
            '<g fill="#9b7ede" fill-opacity=".55" stroke="#e8e4f5" stroke-width=".03">',
            *landers,
            "</g>",
            "</svg>\n",
        ]
    )


def _outline(body: Any) -> list[tuple[float, float]]:
    return [tuple(body.transform * vertex) for vertex in body.fixtures[0].shape.vertices]


def _polygon(points: Iterable[tuple[float, ...]]) -> str:
    return f'<polygon points="{_points(points)}"/>'


def _points(points: Iterable[tuple[float, ...]]) -> str:
    return " ".join(f"{x:.2f},{_HEIGHT - y:.2f}" for x, y in points)


if __name__ == "__main__":
    command(main)
