"""Verdicts on a study's expectations: read, tested, and decided by one rule."""
