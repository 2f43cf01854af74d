"""Results side by side: read from evidence and from MLPerf's folders, shown as Markdown, curves, a page, CSV and JSON.

All of them show `entry.Entry`, whichever ruleset judged it. Nothing of a submission is ever markup in any of them.
"""
