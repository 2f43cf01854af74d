"""The rules that a machine checks: `rules.md` numbers them, each check here bears its rule's id.

`verdict.review` is the entrance. `reading` turns a folder into values, `timeline` a log into a run; the checks stand in
one file for each chapter or two; `finding` holds what they report and where they register.
"""
