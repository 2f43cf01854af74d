"""A small convolutional network trained with Muon, after airbench94 (K. Jordan, 2024, arXiv:2404.00498).

`shared.py` holds what both frameworks must do alike: initial parameters, order, augmentation, schedules. For the ResNet
that `pilot` and `full` train, `resnet.py` and `pictures.py` hold the same.
"""
