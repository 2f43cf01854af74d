"""What a reviewer reads: one report of a review, as a terminal table, JSON, SARIF and one HTML page.

`model.Report` is what all of them show, whichever ruleset made it. None of them takes a submission's text for markup.
"""
