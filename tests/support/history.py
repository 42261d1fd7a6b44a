"""Whether this checkout has the commits of its questions."""

import subprocess

import pytest

from benchmarks.parts.common import ROOT

SHALLOW = ["git", "rev-parse", "--is-shallow-repository"]
HAS_HISTORY = "false" in subprocess.run(SHALLOW, cwd=ROOT, capture_output=True, text=True).stdout
needs_history = pytest.mark.skipif(not HAS_HISTORY, reason="the checkout has no history of its questions")
