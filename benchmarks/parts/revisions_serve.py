"""The process of a revision in benchmarks.revisions: builds runs, trains steps, says how long they took.

It is run as text, with the code of the revision's tree, whose own benchmarks may not have this file. A request is a
line of JSON, ``["build", runs, overrides, threads]`` or ``["train", steps, threads]``. So is the answer: the seconds of
a step.
"""

import json
import sys

from benchmarks.parts.common import Training

WARM_UP = 3


def main() -> None:
    """Answer until there is nobody to ask."""
    training, answers = None, sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        request, *given = json.loads(line)
        if request == "build":
            runs, overrides, threads = given
            training = None  # or two batches would be in memory
            training = Training(runs, *overrides)
            given = (WARM_UP, threads)
        print(json.dumps(training.seconds(*given)), file=answers, flush=True)


if __name__ == "__main__":
    main()
