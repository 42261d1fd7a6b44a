"""W&B runs as this machine's wandb writes them offline."""

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BLOCK = 32_768


def offline_run(
    place: Path, name: str, config: dict[str, Any], rows: Iterable[dict[str, Any]], exit_code: int = 0
) -> Path:
    """Log rows with wandb itself; return the folder of the run."""
    import wandb

    settings = wandb.Settings(silent=True, x_disable_stats=True, disable_git=True, disable_code=True)
    run = wandb.init(project="p", name=name, config=config, dir=str(place), mode="offline", settings=settings)
    for row in rows:
        run.log(row)
    run.finish(exit_code)
    wandb.teardown(exit_code)  # finish returns before wandb's other process has written all
    return Path(run.dir).parent


def write_records(path: Path, records: Iterable[bytes]) -> Path:
    """A `.wandb` file of serialized records, for files that wandb would take minutes to write."""
    out = bytearray(struct.pack("<4sHB", b":W&B", 0xBEE1, 0))
    for data in records:
        first = True
        while first or data:
            left = BLOCK - len(out) % BLOCK
            if left < 7:
                out += bytes(left)
                left = BLOCK
            part, data = data[: left - 7], data[left - 7 :]
            kind = (1 if not data else 2) if first else (4 if not data else 3)
            out += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            first = False
    path.write_bytes(out)
    return path
