"""rlexp: which post-training trick matters, by how much, and would it hold over seeds?"""

import os

# One run must give the same bits alone and in a batch (the rule: core/exact.py). MKL reads its mode once, before its
# first product; without this one a product of [30, 10] by [10, 5] differs in the last bit between R = 1 and R = 2.
MKL_MODE = "AUTO,STRICT"
os.environ.setdefault("MKL_CBWR", MKL_MODE)

__version__ = "0.1.0"
