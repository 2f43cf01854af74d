"""An anchor-free single-stage detector, after CenterNet and TTFNet (Liu et al. 2020, arXiv:1909.00700).

`shared.py` holds what both frameworks must do alike: initial parameters, each step's draws, and the conversion of
detections to records. The networks are in `*_network.py`; pictures, boxes, targets and suppression in `*_boxes.py`.
"""
