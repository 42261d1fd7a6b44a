"""Figures of what the objective makes of rewards and of probabilities."""
