"""Proximal policy optimization (Schulman et al. 2017) with two small networks, one for policy and one for value.

What both frameworks must do alike is in `shared.py`, initial parameters and minibatches, and in `environments.py`.
"""
