"""What docs/scaling.md says on paper is of the benchmarks as conf/ has them."""

import re

from suite import config
from tests.bench import paper
from tests.command import PROJECT


def test_the_table_is_of_the_largest_batches_that_are_allowed():
    text = (PROJECT / "docs" / "scaling.md").read_text()
    rows = re.findall(r"^\| (\w+)( \(`mini`\))? \| [\d.]+ \| [^|]+ \| ([\d,]+) \|", text, re.MULTILINE)
    told = {(task, "mini" if mini else "small"): int(most.replace(",", "")) for task, mini, most in rows}
    assert {task for task, _ in told} == set(config.names("task"))
    assert {each: paper.most_parts(config.benchmark(*each)) for each in told} == told
