"""Hydra launcher that trains the jobs of a sweep together."""
