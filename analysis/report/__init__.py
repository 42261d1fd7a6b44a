"""The page of a sweep, its tables and its files."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.report.page import write_report

__all__ = ["write_report"]


def __getattr__(name: str) -> Any:
    """Import the page on first use: it needs Matplotlib, the tables beside it do not."""
    if name in __all__:
        from analysis.report import page

        return getattr(page, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
