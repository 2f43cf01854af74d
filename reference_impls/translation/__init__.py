"""A small pre-norm Transformer (Vaswani et al. 2017) with tied embeddings, its matrices trained with Muon.

`shared.py` holds what both frameworks must do alike: initial parameters, batches, schedule;
`search.py` batches the test's sentences for the beam search, which each framework does on the device.
`transformer.py` trains the network as it was published: its batches counted in subwords, with Adam.
"""
