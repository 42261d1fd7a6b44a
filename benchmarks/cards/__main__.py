"""Write docs/claims.md, a card a claim and docs/advice.md: ``python -m benchmarks.cards``.

Figures are drawn beside the answers: all of them, or with ``python -m benchmarks.cards length_bias`` those of one
question. Exit code 2, and nothing is written, where a question is younger than its first run, or a card is none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.cards.advice import advice_page
from benchmarks.cards.asked import DOCS, Asked, asked
from benchmarks.cards.card import card_page
from benchmarks.cards.page import page
from benchmarks.cards.texts import Card, Refused, read_cards


def main() -> int:
    """Draw, and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="questions whose figures are drawn (default: all)")
    chosen = parser.parse_args().names
    try:
        cards, answers = read_cards(), asked()
        used = sorted({name for card in cards for name in card.questions} & {*answers})
        if unknown := {*chosen} - {*used}:
            raise Refused(f"{min(unknown)}: no answered question of a card; these are: {', '.join(used)}")
        made = pages(cards, answers)
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    draw(answers[name] for name in chosen or used)
    for path, text in made.items():
        (DOCS / path).write_text(text, encoding="utf-8")
    return 0


def pages(cards: Sequence[Card], answers: Mapping[str, Asked]) -> dict[str, str]:
    """Return all pages by their paths below docs/."""
    below = {f"claims/{card.number}.md": card_page(card, answers) for card in cards}
    return {"claims.md": page(cards, answers), "advice.md": advice_page(cards)} | below


def draw(used: Iterable[Asked]) -> None:
    """Draw the figures of answers."""
    from benchmarks.cards.figures import figures
    from rlexp.analysis.figures.layout import theme

    for one in used:
        for name, figure in figures(one):
            with theme():
                figure.savefig(one.folder / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
