"""norm=mad for rlexp. Importing this package registers its choices."""

from pathlib import Path

import rlexp
from rlexp_mad.norms import mad

rlexp.add_config_dir(Path(__file__).parent / "conf")
rlexp.register("norm", mad)
