"""A gated linear recurrence (a QRNN, Bradbury et al. 2017, arXiv:1611.01576) with an adaptive softmax.

`shared.py` holds what both frameworks must do alike: initial parameters, order of the text, schedule.
"""
