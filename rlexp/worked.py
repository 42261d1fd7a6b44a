"""`rlexp worked four_pillars`: the numbers of a source document, which the scripts of docs/tour/worked compute."""

from pathlib import Path
from runpy import run_path

HERE = Path(__file__).resolve().parent
SCRIPTS = next(folder for folder in (HERE / "tour", HERE.parent / "docs/tour/worked") if folder.is_dir())

if __name__ == "__main__":
    run_path(str(SCRIPTS), run_name="__main__")
