"""Audits: a part of a run's training is done again, and held to what the run says of it.

A run logs the sum of its state at each evaluation. An auditor draws some of the blocks between two evaluations, trains
them again from the state before, and compares the state, the predictions, the metric, the loss and the time: who did
not train as they say cannot know which block will be asked for. This is proof-of-learning (Jia et al. 2021, IEEE S&P,
"Proof-of-Learning: Definitions and Practice"). Of its known weakness, that rounding differs between machines and leaves
room for forged states, see Fang et al. 2023 (EuroS&P, "Proof-of-Learning is Currently More Broken Than You Think") and,
for exact replication by logged rounding decisions, Srivastava et al. 2024 (NeurIPS, "Optimistic Verifiable Training by
Controlling Hardware Nondeterminism"). Here like machines are held to the same bits; on others a distance can pass a
run, and condemns none.
"""
