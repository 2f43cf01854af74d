"""A convolutional network trained with CTC: words from log-mel features.

`shared.py` holds what both frameworks must do alike: initial parameters, batches with their augmentation, decoding.
"""
