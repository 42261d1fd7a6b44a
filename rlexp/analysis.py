"""The package `rlexp.analysis` in a checkout: the folder ``analysis`` beside ``rlexp``. A wheel has it here."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[1] / "analysis")]

from rlexp.analysis.data.load import load  # noqa: E402

__all__ = ["load"]
