"""Inference from a few numbers: functions of NumPy arrays that know nothing of sweeps."""
