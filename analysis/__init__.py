"""Reads the folders that runs leave behind; writes tables, figures and verdicts. Never imports the training code."""

from rlexp.analysis.data.load import load

__all__ = ["load"]
