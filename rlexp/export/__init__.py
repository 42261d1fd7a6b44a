"""A configuration in the settings of other frameworks: ``python -m rlexp.export preset=lite_ppo to=trl``.

``rule`` says what a table is and applies it. ``trl``, ``verl`` and ``openrlhf`` are a table each, of the version that
they name: axis, choice, its settings there, and what stays different. ``common`` holds in all of them.
"""
