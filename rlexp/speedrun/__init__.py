"""The speedrun: how few completions does a recipe take until a fixed world is learned? docs/speedrun.md has the rules.

recipe   the worlds, and which overrides are a submission
records  docs/speedrun/records/*.json, each of which names the one before by its hash; seeds, comparisons
race     trains recipes, makes draws of them, and trains records again
page     the tables of docs/speedrun.md
"""
