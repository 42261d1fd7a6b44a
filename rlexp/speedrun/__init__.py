"""The speedrun: how few completions does a recipe take until a fixed world is learned? docs/speedrun.md has the rules.

worlds      what is to be learned, by which model, and when it counts as learned
recipe      which overrides are a submission, and what of the configuration they change
seeds       those of a submission, which follow from it, and those of a second draw
race        trains through ``rlexp.api`` and counts completions
verdict     whether one recipe beats another on the same seeds
records     docs/speedrun/records/*.json, each of which names the one before by its hash
submission  a candidate, and the second draw that makes it a record
verify      a record again, bit by bit
page        the tables of docs/speedrun.md
"""
