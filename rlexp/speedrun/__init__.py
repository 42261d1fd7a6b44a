"""The speedrun: how few completions does a recipe take until a fixed world is learned? docs/speedrun.md has the rules.

recipe   the worlds, and which overrides are a submission
records  docs/speedrun/records/*.json, each of which names the one before by its hash; seeds, comparisons, tables
race     trains recipes: a submission, its second draws, and a record again
"""
