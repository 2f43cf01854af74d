"""An anchor-free single-stage detector, after CenterNet and TTFNet (Liu et al. 2020, arXiv:1909.00700).

`shared.py` and `decoding.py` hold what both frameworks must have alike: initial parameters, order, augmentation,
targets, and how outputs become boxes.
"""
