"""Results side by side: read from evidence and from MLPerf's folders, shown as Markdown, curves, a page, CSV and JSON.

`entry.Entry` is what all of them show, whichever ruleset judged it; nothing of a submission is ever markup in any.
"""
