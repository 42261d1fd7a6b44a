"""Which prompts of text are held out from training: a property of the prompt alone, the same for every run."""

from __future__ import annotations

from hashlib import blake2b


def is_held_out(prompt: str, share: float) -> bool:
    """Whether a prompt is among the ``share`` of all texts that is held out: by a hash, so whatever seed drew it."""
    digest = blake2b(prompt.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64
