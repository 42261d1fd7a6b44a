"""Servers of Weights & Biases on this machine, each with its way of answering, or of not answering."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support" / "reports"))

from wandb_server import Handler, wandb_server  # noqa: E402

SECONDS_OF_SILENCE = 240
Answer = Callable[[Handler], bool]


@contextmanager
def server(answer: Answer | None) -> Iterator[str]:
    """A server's address; ``answer`` says before each answer whether there is one, and may take its time.

    None: there is no server.
    """
    if answer is None:
        yield "http://127.0.0.1:9"
        return
    post = Handler.do_POST

    def do_post(self: Handler) -> None:
        if answer(self):
            post(self)
        else:
            self.close_connection = True

    Handler.do_POST = do_post
    try:
        with wandb_server() as standin:
            yield standin.url
    finally:
        Handler.do_POST = post


def slow(handler: Handler) -> bool:
    """Two seconds for every answer."""
    time.sleep(2)
    return True


def silent(handler: Handler) -> bool:
    """No answer for a long time, then none."""
    time.sleep(SECONDS_OF_SILENCE)
    return False


def lost(streams: int = 2) -> Answer:
    """A server that ends when it has been sent rows so often."""
    seen = []

    def answer(handler: Handler) -> bool:
        seen.extend(["file_stream"] * ("file_stream" in handler.path))
        return len(seen) < streams

    return answer
