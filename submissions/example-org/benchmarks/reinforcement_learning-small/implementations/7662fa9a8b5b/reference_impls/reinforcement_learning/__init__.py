"""Proximal policy optimization (Schulman et al. 2017) with two small networks, one for policy and one for value.

`shared.py` holds what both frameworks must have alike: initial parameters, environments, random numbers, advantages.
"""
