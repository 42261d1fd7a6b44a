"""What the parts share: each is a process that writes a line of JSON for each row and note, and knows its time."""

from __future__ import annotations

import argparse
import gc
import json
import time

import rlexp  # noqa: F401 (first: it sets MKL's mode)
from benchmarks.parts.common import peak_memory


class Part:
    """The command line of a part, the time that it has left, and what it says."""

    def __init__(self, doc: str | None):
        parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
        parser.add_argument("--quick", action="store_true", help="toy sizes")
        parser.add_argument("--seconds", type=float, default=600, help="after which nothing new is begun (600)")
        parser.add_argument("--model", metavar="PATH", help="a language model, of a folder or of the hub")
        chosen = parser.parse_args()
        self.device, self.quick, self.model = chosen.device, chosen.quick, chosen.model
        self.ends = time.monotonic() + chosen.seconds

    def lacks_time(self, seconds: float, what: str) -> bool:
        """Whether less time is left than something is expected to take; it is then said that it is left out."""
        left = self.ends - time.monotonic()
        if left < seconds:
            self.note(f"{what}: left out, about {seconds:.0f} s of which {max(left, 0):.0f} s are left")
        return left < seconds

    def row(self, **cells: object) -> None:
        """Say a row of the table; all rows of a part have the same columns."""
        print(json.dumps({"row": cells}), flush=True)

    def note(self, text: str) -> None:
        """Say a line that stands below the table."""
        print(json.dumps({"note": text}), flush=True)

    def forget_peak(self) -> None:
        """Let the peak of the memory be that of what follows; a process on the CPU cannot."""
        import torch

        gc.collect()
        if self.device == "cuda":
            torch.cuda.init()  # without it there are no statistics to reset
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def peak_gb(self) -> float:
        """Return the most GB that tensors took on the device since ``forget_peak``; of the CPU, the process."""
        import torch

        return torch.cuda.max_memory_allocated() / 1e9 if self.device == "cuda" else peak_memory() / 1e3
