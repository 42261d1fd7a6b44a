"""A configuration in the settings of other frameworks: ``python -m rlexp.export preset=lite_ppo to=trl``.

``trl.yaml``, ``verl.yaml`` and ``openrlhf.yaml`` are a table each, of the version that they name: axis, choice, its
settings there, and what stays different. ``common.yaml`` holds in all of them. ``tables`` reads them, ``computed`` has
what they name, ``rule`` applies them.
"""
