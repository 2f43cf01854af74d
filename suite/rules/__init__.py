"""The rules that a machine checks. Each check bears the id that `rules.md` gives its rule.

`verdict.review` is the entry point. `reading` turns a folder into values, `timeline` a log into the course of its run.
Each module of checks covers a chapter or two. `finding` defines findings and the registries of checks.
"""
