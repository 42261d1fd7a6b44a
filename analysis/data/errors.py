"""The errors of this package, and the parser of its commands, which says them in one line."""

import argparse
from typing import NoReturn


class AnalysisError(ValueError):
    """A question that cannot be answered; its message is one line for the user."""


class NothingLeft(AnalysisError):
    """A condition that no run meets."""


class CommandParser(argparse.ArgumentParser):
    """A parser that ends wrong arguments with one line and exit code 2, without the whole usage."""

    def error(self, message: str) -> NoReturn:
        """End the process."""
        self.exit(2, f"error: {message} ({self.prog} --help)\n")
