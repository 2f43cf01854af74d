"""A small pre-norm Transformer (Vaswani et al. 2017) with tied embeddings, its matrices trained with Muon.

`shared.py` holds what both frameworks must have alike: initial parameters, batches, dropout, schedule; `search.py`
the beam search, in numpy, around a framework's one-token step.
"""
