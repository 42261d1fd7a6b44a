"""From the numbers of runs to estimates, intervals, p values and verdicts."""
