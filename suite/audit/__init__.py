"""Audits: train a part of a run again, and compare the result with what the run claims.

A run logs the sum of its state at each evaluation. An auditor draws some of the blocks between two evaluations, trains
them again from the state before, and compares the state, the predictions, the metric, the loss and the time. Whoever
did not train as claimed cannot know which block will be drawn. This is proof-of-learning (Jia et al. 2021, IEEE S&P,
"Proof-of-Learning: Definitions and Practice"). Its known weakness is that rounding differs between machines and leaves
room for forged states: see Fang et al. 2023 (EuroS&P, "Proof-of-Learning is Currently More Broken Than You Think") and,
for exact replication by logged rounding decisions, Srivastava et al. 2024 (NeurIPS, "Optimistic Verifiable Training by
Controlling Hardware Nondeterminism"). Here, states are compared bit for bit on like machines; on others, the distance
between them can pass a run but not fail it.
"""
