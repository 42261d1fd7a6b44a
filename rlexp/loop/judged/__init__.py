"""Runs that somebody else than the task judges: what is logged of them, and the models that judge."""
