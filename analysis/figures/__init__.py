"""All figures of a sweep, in one theme."""

import logging

# Before Matplotlib is imported: it says where it keeps its list of fonts, and fontTools what it does with each glyph.
for name in ("matplotlib", "fontTools"):
    logging.getLogger(name).setLevel(logging.ERROR)
