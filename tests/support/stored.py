"""The stored studies, read once for all tests of a process: their configurations take a minute to compose."""

from functools import cache

from benchmarks.stored import studies
from benchmarks.stored.study import Study


@cache
def stored_studies() -> list[Study]:
    return studies()
