"""SASRec (Kang and McAuley 2018, arXiv:1808.09781): a causal Transformer that predicts a user's next item.

`shared.py` holds what both frameworks must do alike: initial parameters, order of the windows, schedule, ranking.
"""
