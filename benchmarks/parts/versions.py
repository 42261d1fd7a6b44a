"""Which version of each framework and of each paper's code was read for the choices and the tables, and when."""

from __future__ import annotations

from typing import NamedTuple


class Version(NamedTuple):
    """The release or commit of a repository that was read, the day it is of, the month of the reading, and for what."""

    name: str
    repository: str
    version: str
    dated: str
    read: str
    what: str


ALL = "settings, formulas, what differs"
NAMES_ONLY = "names, what differs"
VERSIONS = (
    Version("TRL", "huggingface/trl", "1.16 and f2cd5771", "2026-07-24", "2026-11", ALL),
    Version("verl", "verl-project/verl", "1dda039b", "2026-08-22", "2026-11", ALL),
    Version("OpenRLHF", "OpenRLHF/OpenRLHF", "3c3be623, which is 0.11.0", "2026-08-13", "2026-11", ALL),
    Version("open-instruct", "allenai/open-instruct", "e6c3044a", "2026-08-20", "2026-11", NAMES_ONLY),
    Version("prime-rl", "PrimeIntellect-ai/prime-rl", "559b4477", "2026-08-21", "2026-11", NAMES_ONLY),
    Version("prime-rl", "PrimeIntellect-ai/prime-rl", "#3418, #3586", "2026-09-18", "2026-11", "its default loss"),
    Version("slime", "THUDM/slime", "624b824a", "2026-08-21", "2026-11", NAMES_ONLY),
    Version("ROLL", "alibaba/ROLL", "8eb27cc2", "2026-08-19", "2026-11", NAMES_ONLY),
    Version("oat", "sail-sg/understand-r1-zero", "dfca49dd", "2025-08-27", "2026-11", NAMES_ONLY),
    Version("oat", "sail-sg/oat", "c1a074c3", "2025-10-31", "2026-11", NAMES_ONLY),
    Version("AReaL", "inclusionAI/AReaL", "4aef98d8", "2026-05-21", "2026-11", NAMES_ONLY),
    Version("NeMo-RL", "NVIDIA-NeMo/RL", "7ea279a", "2026-08-22", "2026-11", NAMES_ONLY),
    Version("SkyRL", "NovaSky-AI/SkyRL", "a956457", "2026-08-21", "2026-11", NAMES_ONLY),
    Version("UniRL", "Tencent-Hunyuan/UniRL", "1a7b501, 30899fc", "2026-06-13", "2026-11", "`clip=drpo`, `clip=cppo`"),
    Version("CTPO", "horizon-llm/CTPO", "acc4021", "2026-06-24", "2026-11", "`clip=ctpo`"),
    Version("ΔL", "zerolllin/Delta-L-Normalization", "89da5b9", "2025-06-14", "2026-11", "`agg=delta_l`"),
    Version("M2PO", "Infini-AI-Lab/M2PO", "af54a3e", "2025-10-08", "2026-11", "`clip=m2po_clipped`"),
    Version("GVPO", "jszkc/GVPO", "627aa25", "2025-10-27", "2026-11", "`clip=gvpo`"),
    Version("TPO", "JeanKaddour/tpo", "73473b9", "2026-04-18", "2026-11", "`clip=tpo`"),
    Version("REAL", "Red-RL/REAL", "1c30726", "2026-02-09", "2026-11", "`clip=real`"),
    Version("A*-PO", "ZhaolinGao/A-PO", "c8823a3", "2025-05-30", "2026-11", "`norm=a2po`, `clip=a2po`"),
    Version("WAPO", "layer6ai-labs/wapo", "ca70250", "2026-06-16", "2026-11", "`clip=wapo`"),
    Version("FlowRL", "verl-project/verl-recipe", "48ea0a7", "2026-08-05", "2026-11", "`clip=flowrl`"),
    Version("SDPO", "lasgroup/SDPO", "0e6d510", "2026-02-13", "2026-11", "`preset=sdpo`"),
    Version("OPSD", "siyan-zhao/OPSD", "590ec26", "2026-03-10", "2026-11", "`preset=opsd`"),
    Version("SDAR", "ZJU-REAL/SDAR", "8b85c23", "2026-08-19", "2026-11", "`distillation=sampled_gated`"),
    Version("ms-swift", "modelscope/ms-swift", "3602360a", "2026-08-22", "2026-11", "`clip=real`, `imitation`"),
    # the day of its pull request 294, which the file that was read matches; the commit is later
    Version("Trinity-RFT", "modelscope/Trinity-RFT", "b458e2c", "2025-09-22", "2026-11", "`imitation`"),
)
