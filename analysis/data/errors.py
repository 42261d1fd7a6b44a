"""The errors of this package."""


class AnalysisError(ValueError):
    """A question that cannot be answered; its message is one line for the user."""


class NothingLeft(AnalysisError):
    """A condition that no run meets."""
