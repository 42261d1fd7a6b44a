"""Every number of docs/claims.md and its cards, computed again by recompute_cards.py, to which rlexp is not there.

Draws are the same, so effects agree to the digits that are printed; shares of redraws to two of 1,000, as a redraw on a
border may say another word on another processor.
"""

import json
import math
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from statistics import median

import pytest
import yaml
from history import needs_history

from benchmarks.cards.asked import asked
from benchmarks.cards.card import card_page
from benchmarks.cards.page import page
from benchmarks.cards.texts import Card

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SCRIPT, NOTEBOOK = Path(__file__).with_name("recompute_cards.py"), "analysis/report/templates/recompute_question.ipynb"
ALONE = "import runpy, sys; sys.modules |= dict.fromkeys(('rlexp', 'analysis', 'benchmarks'))  # to import them fails\n"
SHARES = 0.0021
WORDS = dict.fromkeys(("claim", "said", "source", "regime", "why", "objection", "known"), "In words.") | {
    "read": "full"
}


@pytest.fixture(scope="module")
def computed():
    """The numbers of all kept answers, by the name of the question."""
    folders = {name: str(one.folder) for name, one in asked().items()}
    code = f"{ALONE}sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", code, str(SCRIPT), str(ROOT / NOTEBOOK), *folders.values()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {name: found[folder] for name, folder in folders.items()}


def committed():
    """The pages as they are committed, with the questions of each card."""
    files = {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in (DOCS / "claims" / "cards").glob("*.yaml")}
    texts = {path: (DOCS / path).read_text("utf-8") for path in ("claims.md", *(f"claims/{n}.md" for n in files))}
    return texts, {number: card["questions"] for number, card in files.items()}


def written():
    """Pages of a card for each kept answer, with its replication."""
    answers = asked()
    firsts = [name for name in answers if not name.endswith("_replication")]
    both = [[each for each in (name, f"{name}_replication") if each in answers] for name in firsts]
    numbers = [f"{letter}{place:02}" for letter in "cde" for place in range(1, 100)]
    cards = [Card(number=number, questions=names, **WORDS) for number, names in zip(numbers, both, strict=False)]
    assert len(cards) == len(both)
    below = {f"claims/{card.number}.md": card_page(card, answers) for card in cards}
    return {"claims.md": page(cards, answers)} | below, {card.number: card.questions for card in cards}


@pytest.mark.slow
@pytest.mark.parametrize("read", [committed, pytest.param(written, marks=[needs_history, pytest.mark.rare])])
def test_each_number_is_that_of_the_runs(computed, read):
    texts, questions = read()
    used = {name: computed[name] for names in questions.values() for name in names if name in computed}
    for number, names in questions.items():
        last, first = ([each for name in names if name in used and counts(name, used) == is_last
                        for each in computed[name]["assertions"]] for is_last in (True, False))  # fmt: skip
        rows = rows_of(number, texts["claims.md"])
        assert len(rows) == len(last)
        if last:
            check_rows(rows, last)
            check_card(texts[f"claims/{number}.md"], last + first)
    check_sums(texts["claims.md"], used, computed)


def counts(name, used):
    """Tell whether the words of a question count: those of its replication do in their place."""
    return f"{name}_replication" not in used


def rows_of(number, text):
    """Return the word, effect and settings of each assertion of a claim on the scorecard."""
    _, _, below = text.partition(f"\n| [{number[0].upper()}{int(number[1:])}](claims/{number}.md) | **")
    lines = takewhile(lambda line: line.startswith("|  | "), below.splitlines()[1:])
    return [line.split(" | ")[2:5] for line in lines]


def check_rows(rows, found):
    """The words, effects and settings of a claim on the scorecard."""
    assert [word.split("**")[1] for word, _, _ in rows] == [headline(each) for each in found]
    for (_, text, size), each in zip(rows, found, strict=True):
        check_settings(size, each)
        if each["stays"] is None:
            dropped = sum(bool(one["fails"]) for one in each["conditions"].values())
            assert text == f"{dropped} of {len(each['conditions'])} settings are not valid"
        else:
            check_shown(text, each["shown"], each["level"])


def check_settings(text, each):
    """`5 of 6 × 8 to 20 seeds` are the valid conditions, all, and the seeds of those."""
    valid = [one for one in each["conditions"].values() if not one["fails"]]
    counts = [one["n"] for one in valid or each["conditions"].values()]
    found = re.search(r"(\d+)(?: of (\d+))? × (\d+)(?: to (\d+))? (?:seed|start)s", text)
    said = [int(each) for each in (found[1], found[2] or found[1], found[3], found[4] or found[3])]
    assert said == [len(valid), len(each["conditions"]), min(counts), max(counts)]


def headline(each):
    word = each["word"]
    if each["stays"] is None or (word == each["said"] and each["stays"] >= 0.8):
        return word
    if word != "open":
        return f"leaning {word}"
    others = sorted(each["shares"].items(), key=lambda item: -item[1])
    return f"open, leaning {each['said'] if each['said'] != 'open' else next(o for o, _ in others if o != 'open')}"


def check_card(text, found):
    """The lines about what came out, and the tables of settings, of a card."""
    lines = [line for line in text.splitlines() if re.match(r"- .*: \*\*", line)]
    assert len(lines) == len(found)
    for line, each in zip(lines, found, strict=True):
        assert f"**{headline(each)}**" in line
        if each["stays"] is not None:
            check_shown(line.partition("**, ")[2], each["shown"], each["level"])
            assert f"({100 * each['confidence']:g} % interval, " in line
            check_settings(line.partition(" % interval, ")[2], each)
            told = re.findall(r"(?:: |, )([a-z ]+) ([\d.]+\d)", ":" + line.partition("Redrawn:")[2])
            assert {word for word, _ in told} == {word for word, share in each["shares"].items() if share}
            assert all(abs(float(share) - each["shares"][word]) < 0.0051 + SHARES for word, share in told)
            predicted = re.search(r"it lies in \[(.*?), (.*?)\]", line)
            assert bool(predicted) == bool(each["predicted"])
            for end, number in zip(predicted.groups() if predicted else (), each["predicted"] or (), strict=True):
                check_printed(end, number)
    tables = [block.splitlines()[2:] for block in text.split("\n\n") if block.startswith("| setting | n |")]
    for rows, each in zip(tables, found, strict=True):
        told = [[cell.strip() for cell in row[1:-1].split(" | ")] for row in rows]
        assert {cells[0].replace(", ", ",") for cells in told} == {*each["conditions"]}
        for name, n, *values, shown, dropped in told:
            one = each["conditions"][name.replace(", ", ",")]
            assert int(n) == one["n"] and dropped == (f"dropped: {one['fails']}" if one["fails"] else "")
            if not one["n"]:
                assert {*values, shown} == {"–"}
                continue
            assert not values or values[0] == ", ".join(f"{value:.3g}" for value in one["values"])
            check_shown(shown, one["shown"], one["level"])


def check_shown(text, numbers, level):
    """`+6.2 points [+2.4, +9.9] at .5` is an effect, its interval, and the level."""
    effect, low, high, at = re.match(r"(\S+)(?: points)? \[(.*?), (.*?)\](?: at ([\d.,]*\d(?:e−\d+)?))?", text).groups()
    for said, number in zip((effect, low, high), numbers, strict=True):
        check_printed(said, number)
    if at:
        third = 10.0 ** (math.floor(math.log10(level)) - 2)  # three digits are printed
        assert abs(float(at.replace(",", "").replace("−", "-")) - level) <= 0.51 * third


def check_printed(text, number):
    value = float(text.strip().lstrip("×").replace("−", "-").replace(",", ""))
    digits = len(text.partition(".")[2])
    assert abs(value - number) <= 0.51 * 10.0**-digits + 1e-6 * abs(number), (text, number)


def check_sums(text, used, computed):
    """What the page says of all its answers, and of all controls."""
    last = [one for name, one in used.items() if counts(name, used)]
    found = [each for one in last for each in one["assertions"]]
    settings = [one for each in found for one in each["conditions"].values()]
    stays = [each["stays"] for each in found if each["stays"] is not None]
    nulls = [null for one in computed.values() for null in one["nulls"]]
    changes = [each["change"] for each in found if each.get("change")]
    pairs = [pair for one in last for pair in one["one_rate"]]
    near = [counted for _, best, counted in pairs if abs(best) < 1]
    turned = [any(each * best < 0 for each in counted) for _, best, counted in pairs]
    called = sum(null["word"] in ("supported", "smaller than claimed", "contradicted") for null in nulls)
    said = {
        r"an answer here\*\*, from ([\d,]+) runs": [sum(one["runs"] for one in used.values())],
        r"\*\*Dropped\*\*: (\d+) of (\d+)": [sum(bool(one["fails"]) for one in settings), len(settings)],
        r"\*\*Cannot answer\*\*: (\d+) of (\d+)": [len(found) - len(stays), len(found)],
        r"still rises: in (\d+) of (\d+)": [sum(one[key] for one in last) for key in ("ends", "tuned")],
        r"below 0\.8 for (\d+) of (\d+) words": [sum(share < 0.8 for share in stays), len(stays)],
        r"asked: (\d+) of (\d+) are called": [called, len(nulls)],
        r"check fails in (\d+) of (\d+)": [sum(null[key] for null in nulls) for key in ("moved", "conditions")],
        r"In (\d+) of (\d+) settings both arms are best": [sum(same for same, *_ in pairs), len(pairs)],
        r"In (\d+) they differ by less than counts.*; in (\d+) of these": [len(near), sum(map(bool, near))],
        r"In (\d+) settings the arm that is behind": [sum(turned)],
    }
    for pattern, numbers in said.items():
        assert [int(each.replace(",", "")) for each in re.search(pattern, text).groups()] == numbers, pattern
    for what, alone in (("the loss alone", True), ("what is sampled, rewarded or asked", False)):
        sizes, near, far = zip(*(each[1:] for each in changes if each[0] is alone), strict=True)
        counted = [sum(each >= 1 for each in some) for some in (sizes, near)]
        pattern = (
            rf"Of (\d+) assertions that change {what}, (\d+) have .*? counts \((\d+) with the whole interval\), "
            r"the intervals of (\d+) rule such a size out, and the median is ([\d.]+) of it"
        )
        *numbers, middle = re.search(pattern, text).groups()
        assert [*map(int, numbers)] == [len(sizes), *counted, sum(each < 1 for each in far)]
        assert abs(float(middle) - median(sizes)) <= 0.0051
