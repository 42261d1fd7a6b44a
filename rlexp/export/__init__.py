"""A configuration in the settings of other frameworks: ``python -m rlexp.export preset=lite_ppo to=trl``.

``rule`` says what a table is and applies it; ``trl``, ``verl`` and ``openrlhf`` are one table each, of the versions that
they name. A table is the whole knowledge about a framework: axis, choice, its settings there, and what stays different.
"""
