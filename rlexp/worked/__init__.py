"""Worked examples: the numbers that the source documents print, computed by the functions that train.

`rlexp worked four_pillars` prints those of one document; a study may name the document whose examples it ends with.
"""

from rlexp.worked import four_pillars, grpo_tcr, lecture17, rl_chapter, trl_notes

DOCUMENTS = {
    "four_pillars": four_pillars.EXAMPLES,
    "grpo_tcr": grpo_tcr.EXAMPLES,
    "lecture17": lecture17.EXAMPLES,
    "trl_notes": trl_notes.EXAMPLES,
    "rl_chapter": rl_chapter.EXAMPLES,
}
