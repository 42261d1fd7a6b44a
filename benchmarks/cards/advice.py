"""docs/advice.md: what the answers mean for practice, in the order in which it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from benchmarks.cards.texts import Card, Refused
from benchmarks.claims.texts import HOME

ORDER = HOME / "advice.yaml"
HEAD = """\
# Advice

What the [claims](claims.md) mean for practice, in the order in which it is needed. Each line ends with its claim, and
with how far the answer can be trusted, from A to D, where a question was asked. A *rate* is a learning rate.

All of it is from tasks of a few tokens with policies of a few hundred thousand weights, or from worlds that are a
table. Take it as what to look at first, not as what your model will do. `rlexp ask` answers a question of your own.
"""


def advice_page(cards: Sequence[Card], order: Path = ORDER) -> str:
    """Return the page.

    Raises:
        Refused: a claim without a line, or a line without a claim or its practice.
    """
    sections = yaml.safe_load(order.read_text(encoding="utf-8"))
    by_number = {card.number: card for card in cards if card.questions or card.practice}
    lines = [HEAD]
    named = [piece["card"] for pieces in sections.values() for piece in pieces]
    if wrong := [*{*by_number} ^ {*named}, *(name for name in named if named.count(name) > 1)]:
        raise Refused(f"{order.name}: {sorted(wrong)[0]}: must be in one line of advice, and be a claim")
    for title, pieces in sections.items():
        lines += [f"## {title}", "", *told(pieces, by_number), ""]
    return "\n".join(lines)


def told(pieces: Sequence[Mapping[str, str]], cards: Mapping[str, Card]) -> Iterator[str]:
    """Yield the lines of a section."""
    for piece in pieces:
        card = cards[piece["card"]]
        if not card.practice:
            raise Refused(f"{ORDER.name}: {card.number}: says nothing for practice")
        grade = f", {card.trust.grade}" if card.trust else ""
        yield f"- **{piece['when']}:** {card.practice} ([{card.label}](claims/{card.number}.md){grade})"
