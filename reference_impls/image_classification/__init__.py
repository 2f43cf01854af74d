"""A small convolutional network trained with Muon, after airbench94 (K. Jordan, 2024, arXiv:2404.00498).

`shared.py` holds what both frameworks must have alike: initial parameters, order, augmentation, schedules. `pilot` and
`full` train a ResNet, of which `resnet.py` and `pictures.py` hold that.
"""
