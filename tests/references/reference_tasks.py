"""The verifiers once more, one completion at a time, on lists of integers; nothing here imports torch or rlexp."""

from __future__ import annotations

import re
from collections import Counter

NAN = float("nan")


def until_end(completion: list[int], end: int) -> tuple[list[int], bool]:
    """Tokens before the end token, and whether there is one."""
    if end in completion:
        return completion[: completion.index(end)], True
    return completion, False


def mask(completion: list[int], end: int) -> list[bool]:
    """True up to the end token, which counts."""
    tokens, finished = until_end(completion, end)
    counted = len(tokens) + finished
    return [t < counted for t in range(len(completion))]


def agreement(answer: list[int], target: list[int]) -> int:
    return sum(given == wanted for given, wanted in zip(answer, target, strict=False))


def ordered_pairs(answer: list[int]) -> int:
    return sum(left <= right for left, right in zip(answer, answer[1:], strict=False))


def occurring(items: list[int], answer: list[int]) -> int:
    """Items that occur in the answer, however often it has them."""
    return sum(item in answer for item in items)


def common(items: list[int], answer: list[int]) -> int:
    """Size of the common multiset."""
    return (Counter(items) & Counter(answer)).total()


def sort(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    """Components and correctness; pad and separator in a completion are symbols above all others, and wrong."""
    tokens, finished = until_end(completion, task.end)
    finished = finished or task.end == -1
    items = [x for x in prompt[:-1] if x != task.pad]
    answer = [x for x in tokens if x != task.separator + 1]
    first, most = answer[: len(items)], 2 * len(items) - 1
    exact = finished and answer == sorted(items)
    return {
        "exact": float(exact),
        "graded": agreement(answer, sorted(items)) / max(len(answer), len(items)),
        "lecture": (occurring(items, first) + ordered_pairs(first)) / most,
        "multiset": (common(items, first) + ordered_pairs(first)) / most,
        "format": float(finished and len(answer) == len(items)),
        "correct": exact,
    }


def sort_lecture(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    return {
        "distance": agreement(completion, sorted(prompt)),
        "inclusion_ordering": occurring(prompt, completion) + ordered_pairs(completion),
        "multiset_ordering": common(prompt, completion) + ordered_pairs(completion),
        "correct": completion == sorted(prompt),
    }


def token_preference(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    low = sum(token < task.low for token in completion)
    share = low / len(completion)
    ternary = 1.0 if share < task.good else -1.0 if share > task.bad else 0.0
    return {"ternary": ternary, "share": 1 - share, "correct": ternary == 1.0}


def bandit(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    question = prompt[0] - task.actions
    kinds = ["easy"] * task.easy + ["hard"] * task.hard + ["impossible"] * task.impossible
    count = {"easy": task.easy_right, "hard": task.hard_right, "impossible": 0}[kinds[question]]
    correct = completion[0] in [(5 * question + j) % task.actions for j in range(count)]
    parts = {kind: float(correct) if kind == kinds[question] else NAN for kind in ("easy", "hard", "impossible")}
    return parts | {"correct": correct}


def length_world(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    right = completion[0] == 0
    return {"right": float(right), "exact": float(right and task.end in completion), "correct": right}


def enumerable(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    """Strings are looked up by their place in the order of all; those with another token are the worst."""
    legal = max(completion) < task.symbols
    number = sum(token * task.symbols**place for place, token in enumerate(reversed(completion)))
    tables = {"gold": task.rewards.gold.tolist(), "proxy": task.rewards.proxy.tolist()}
    parts = {name: table[number] if legal else min(table) for name, table in tables.items()}
    return parts | {"correct": legal and parts["gold"] >= task.good}


def categorical(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    (answer,) = completion
    worth = dict(enumerate(task.rewards)).get(answer, min(task.rewards))
    return {"worth": worth, "correct": answer < len(task.rewards) and worth == max(task.rewards)}


def difficulty_mix(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    items = sorted(x for x in prompt[:-1] if x != task.alphabet)
    (kind,) = [name for name, count in task.items.items() if count == len(items)]
    correct = kind != "impossible" and until_end(completion, task.end) == (items, True)
    return {name: float(correct) if name == kind else NAN for name in task.items} | {"correct": correct}


def multi_solution(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    answers = [[a, a + d, a + 2 * d] for a in prompt for d in range(-task.numbers, task.numbers) if d]
    answers = [answer for answer in answers if set(answer) <= set(prompt)]
    correct = completion in answers
    return {"valid": float(correct), "first": float(completion == min(answers)) if correct else NAN, "correct": correct}


def parity(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    tokens, finished = until_end(completion, task.end)
    sums = [sum(prompt[: n + 1]) % 2 for n in range(task.bits)]
    right = finished and tokens[-1:] == sums[-1:]
    return {"right": float(right), "chain": float(finished and tokens == sums), "correct": right}


def column(a: str, b: str, carry: int, full: bool) -> tuple[str, int]:
    """Write one step of an addition on paper, and say the next carry."""
    total = int(a) + int(b) + carry
    digits = " ".join(f"{total:02}")
    return (f"{a} + {b} + {carry} = {digits} , " if full else f"{digits} , "), total // 10


def on_paper(first: str, second: str, full: bool) -> str:
    """Add two numbers of as many digits, from the last digit on."""
    text, carry = "", 0
    for a, b in zip(reversed(first), reversed(second), strict=True):
        step, carry = column(a, b, carry, full)
        text += step
    return f"{text}→ {' '.join(str(int(first) + int(second)))}"


def addition(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    """Judge the text of a completion; a pad in it is a word like another, and wrong."""
    words = "0 1 2 3 4 5 6 7 8 9 + = , → pad".split()
    tokens, finished = until_end(completion, task.end)
    first, second = "".join(words[x] for x in prompt if x != task.pad).strip("=").split("+")
    text, total = " ".join(words[x] for x in tokens), str(int(first) + int(second))
    behind = text.split("→")[-1].split() if "→" in text else None
    exact = finished and behind == list(total)
    return {
        "exact": float(exact),
        "digits": sum(map(str.__eq__, behind or "", total)) / max(len(behind or ""), len(total)),
        "format": float(finished and bool(behind) and all(word.isdigit() for word in behind)),
        "scratchpad": float(finished and text in [on_paper(first, second, full) for full in (True, False)]),
        "correct": exact,
    }


def addition_mix(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    digits = prompt.index(task.plus) - sum(token == task.pad for token in prompt)
    (kind,) = [name for name, count in task.digits.items() if count == digits]
    correct = kind != "impossible" and addition(task, prompt, completion)["correct"]
    return {name: float(correct) if name == kind else NAN for name in task.digits} | {"correct": correct}


def applied(name: str, string: list[int], alphabet: int) -> list[int]:
    made = {
        "reverse": string[::-1],
        "rotate": string[1:] + string[:1],
        "swap": string[-1:] + string[1:-1] + string[:1],
        "twice": (string[: (len(string) + 1) // 2] * 2)[: len(string)],
        "next": [(x + 1) % alphabet for x in string],
        "mirror": [alphabet - 1 - x for x in string],
        "same": string,
    }
    return made[name]


def functions(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    names = ["reverse", "rotate", "swap", "twice", "next", "mirror", "same"]
    outer, inner = (names[token - task.alphabet] for token in prompt[:2])
    thought = applied(inner, prompt[2:-1], task.alphabet)
    correct = completion[len(thought) :] == applied(outer, thought, task.alphabet)
    alone = "same" in (outer, inner)
    parts = {"atom": float(correct) if alone else NAN, "composed": NAN if alone else float(correct)}
    return parts | {"steps": float(completion[: len(thought)] == thought), "correct": correct}


def splitmix64(number: int) -> int:
    """The finalizer of Steele, Lea and Flood (2014), of one step, on unsigned numbers."""
    number = (number + 0x9E3779B97F4A7C15) % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31


def signed(number: int) -> int:
    """What 64 bits are as an int64."""
    return number - 2**64 if number >= 2**63 else number


def row_of(task, prompt: list[int], key: int) -> list[int]:
    """The row of a key, numbered from 0, in the table of a prompt."""
    number = 0
    for symbol in prompt[: task.table]:
        number = number * task.symbols + symbol
    first = (number * task.keys + key) * task.value
    return [signed(splitmix64(first + place)) % task.symbols for place in range(task.value)]


def tool_writes(task, prompt: list[int], tokens: list[int]) -> list[int]:
    """Everything that the tool says to a call among the tokens so far, from behind its key on; nothing without one."""
    call, *_, end = range(task.symbols + task.keys + task.operations, task.vocabulary - 2)
    tokens = until_end(tokens, end)[0]
    if call not in tokens[:-1]:
        return []
    key = tokens[tokens.index(call) + 1] - task.symbols
    row = row_of(task, prompt, key) if 0 <= key < task.keys else [call + 2] * task.value
    return [call + 1, *row]


def tool(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    """What stands behind the environment's tokens is the answer; those are where a call is, whatever they are."""
    end = task.vocabulary - 3
    tokens, finished = until_end(completion, end)
    asked, operation = prompt[task.table] - task.symbols, prompt[task.table + 1] - task.symbols - task.keys
    row = row_of(task, prompt, asked)
    right = applied(["same", "next", "mirror", "reverse"][operation], row, task.symbols)
    said, begin, number, key = tool_writes(task, prompt, completion), 0, 0, None
    if said:
        call = tokens.index(task.vocabulary - 6)
        key = tokens[call + 1] - task.symbols
        number = max(0, min(len(said), len(tokens) + finished - call - 2))
        begin = call + 2 + number if number else 0
    answer, whole = tokens[begin:], finished and len(tokens) == begin + task.value
    form = whole and begin == 2 + number and number and 0 <= key < task.keys and max(answer) < task.symbols
    parts = {"called": float(bool(number) and key == asked), "format": float(bool(form))}
    return parts | {"exact": float(whole and answer == right), "correct": whole and answer == right}


def popped(tokens: list[int], top: int) -> tuple[int, list[int]]:
    """Value of the postfix expression that ends with the last token, and what is before it; ValueError for none."""
    if not tokens:
        raise ValueError("an operand is missing")
    *rest, last = tokens
    if 0 <= last <= top:
        return last, rest
    right, rest = popped(rest, top)
    left, rest = popped(rest, top)
    if last == top + 4 and (right == 0 or left != left // right * right):
        raise ValueError("not exact")
    if last > top + 4:
        raise ValueError("no operator")
    return [left + right, left - right, left * right, left // (right or 1)][last - top - 1], rest


def countdown(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    tokens, finished = until_end(completion, task.end)
    *numbers, _, target = prompt
    top = max(task.largest, task.target)
    fair = not Counter(token for token in tokens if token <= top) - Counter(numbers)
    try:
        value, rest = popped(tokens, top)
    except ValueError:
        value, rest = 0, tokens
    formed = bool(finished and fair and tokens and not rest)
    exact = formed and value == target
    return {
        "exact": float(exact),
        "format": float(formed),
        "close": 1 / (1 + abs(value - target)) if formed else 0.0,
        "correct": exact,
    }


def truth_of_habits(task, items: list[int]) -> int:
    total = sum(items) % task.alphabet
    hashed = splitmix64(sum(splitmix64((x << 32) + place) for place, x in enumerate(items)) % 2**64)
    if (hashed >> 40) / 2**24 < task.right_a:
        return total
    return next(x % task.alphabet for x in (total + 1, total + 2) if x % task.alphabet != items[0])


def two_habits(task, prompt: list[int], completion: list[int]) -> dict[str, float]:
    tokens, finished = until_end(completion, task.end)
    steps, guess = task.alphabet, task.alphabet + 1
    name, numbers = tokens[:1], tokens[1:]
    wanted = {(steps,): task.items, (guess,): 1}.get(tuple(name))
    right = finished and wanted is not None and numbers[-1:] == [truth_of_habits(task, prompt[:-1])]
    formed = finished and len(numbers) == wanted and all(token < task.alphabet for token in numbers)
    habit_a = float(completion[0] == steps)
    return {"right": float(right), "format": float(formed), "habit_a": habit_a, "correct": right}


SCORES = {
    "tool": tool,
    "countdown": countdown,
    "two_habits": two_habits,
    "parity": parity,
    "functions": functions,
    "addition": addition,
    "addition_mix": addition_mix,
    "difficulty_mix": difficulty_mix,
    "multi_solution": multi_solution,
    "sort": sort,
    "sort_lecture": sort_lecture,
    "sort_padded": sort,
    "token_preference": token_preference,
    "token_preference_dense": token_preference,
    "bandit": bandit,
    "length_world": length_world,
    "enumerable": enumerable,
    "categorical": categorical,
}
WORLDS = ["bandit", "length_world", "enumerable", "categorical"]


def name_of(task) -> str:
    """`LengthWorld()` → `length_world`."""
    return re.sub(r"(?<=.)([A-Z])", r"_\1", type(task).__name__).lower()
