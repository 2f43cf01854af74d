"""What a reviewer reads: one report of a review, as a terminal table, JSON, SARIF and one HTML page.

`model.Report` is what all of them show, whichever ruleset made it; nothing of a submission is ever markup in any.
"""
