"""The program ``rlexp``, also ``python -m rlexp``: ``rlexp compare …`` is ``python -m rlexp.analysis.compare …``.

Without the name of a command, overrides train: ``rlexp norm=local`` is ``rlexp train norm=local``.
"""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches

# The module of each, which ``python -m`` runs just so.
COMMANDS = {
    "train": "rlexp.train",
    "explain": "rlexp.config.explain_choice",
    "compare": "rlexp.analysis.compare",
    "transfer": "rlexp.analysis.transfer",
    "plan": "rlexp.analysis.plan",
    "better": "rlexp.analysis.better",
    "ledger": "rlexp.analysis.ledger",
    "noise": "rlexp.analysis.noise",
    "sensitivity": "rlexp.analysis.sensitivity",
    "report": "rlexp.analysis.report",
    "publish": "rlexp.analysis.publish",
    "watch": "rlexp.analysis.watch",
    "dashboard": "rlexp.analysis.workspace",
    "export": "rlexp.export",
    "worked": "rlexp.worked",
    "ablate": "rlexp.ablation",
    "ask": "rlexp.question",
    "speedrun": "rlexp.speedrun",
    "doctor": "rlexp.doctor",
    "check": "rlexp.testing",
}


def main() -> None:
    """Run the command that the first argument names; without one, whatever is written means training."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if word in COMMANDS:
        del sys.argv[1]
        run(COMMANDS[word])
    elif re.fullmatch(r"[A-Za-z][\w-]*", word):  # neither an override nor an option
        sys.exit(refuse(word))
    else:
        run(COMMANDS["train"])


def run(module: str) -> None:
    """Run a module as the program; whatever it exits with is how this ends."""
    from runpy import run_module

    from rlexp.config.choices import load_plugins
    from rlexp.core.exits import silent_without_reader

    load_plugins()
    with silent_without_reader():
        run_module(module, run_name="__main__", alter_sys=True)


def refuse(word: str) -> int:
    """Say that there is no such command, and what there is."""
    from rlexp.core.exits import shortened

    close = get_close_matches(word, COMMANDS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(COMMANDS)}, and overrides, as norm=local"
    print(f"{shortened(word, [word])}: no such command; {hint}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
