"""A configuration in the settings of other frameworks: ``python -m rlexp.export preset=lite_ppo to=trl``."""
