"""A small pre-norm Transformer (Vaswani et al. 2017) with tied embeddings, its matrices trained with Muon.

`shared.py` holds what both frameworks must have alike: initial parameters, batches, schedule;
`search.py` how the test's sentences are batched for the beam search, which each framework does on the device.
The same network as it is published, its batches counted in subwords, trained with Adam: `transformer.py`.
"""
