"""A start has the words and the sense of the replicas' own, learns of answers only, and says what it missed."""

import inspect

import pytest
import torch
from text_tasks import LLAMA, MIXTURE, SFT, CopyDigits, tiny_llama

pytest.importorskip("transformers")

from rlexp.core.exits import RunFailed  # noqa: E402
from rlexp.core.registry import hyperparameters  # noqa: E402
from rlexp.core.streams import Purpose  # noqa: E402
from rlexp.language import warm_up  # noqa: E402
from rlexp.language.generation import sample, stream_seed  # noqa: E402
from rlexp.loop import start  # noqa: E402


def learner(task=None, seed=0, length=8):
    task = task or CopyDigits()
    model, tokenizer = tiny_llama().build(task.characters, seed)
    return warm_up.Learner(model=model, tokenizer=tokenizer, task=task, seed=seed, length=length, ask=str)


def train(learner, settings, **others):
    values = {key: value for key, value in {**settings, **others}.items() if key != "name"}
    return warm_up.STARTS[settings["name"]](learner, **values)


def accuracy(learner, samples=4096):
    """Of samples on held-out prompts that the warm-up has not seen."""
    task, asked = learner.task, learner.task.examples(9, Purpose.EVALUATION_PROMPTS, 0, samples, held_out=True)
    wanted = dict(max_completion_length=learner.length, temperature=1.0, seed=stream_seed(9, Purpose.SAMPLING))
    rows = [row for (row,) in sample(learner.model, learner.tokenizer, [e.prompt for e in asked], 1, **wanted)]
    scores = task.score(asked, [row.text for row in rows], [row.finished for row in rows])
    return sum(score.correct for score in scores) / samples


@pytest.mark.parametrize("name", warm_up.STARTS)
def test_a_start_takes_the_hyperparameters_of_the_replicas(name):
    inspect.signature(warm_up.STARTS[name]).bind(learner, **hyperparameters(start.STARTS[name]))


def test_random_leaves_the_weights_as_they_are():
    one = learner()
    before = {name: value.clone() for name, value in one.model.state_dict().items()}
    assert warm_up.random(one) == (None, None, 0)
    assert all(torch.equal(value, before[name]) for name, value in one.model.state_dict().items())


def test_sft_ends_where_samples_are_right_as_often_as_wanted():
    one = learner()
    found = train(one, SFT)
    assert 0.1 <= found.accuracy < 0.4 and found.updates > 0
    assert abs(accuracy(one) - found.accuracy) < 0.08


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [0.02, 0.2, 0.6])
def test_mixture_ends_at_the_accuracy_and_in_the_form(wanted):
    one = learner()
    found = train(one, MIXTURE, accuracy=wanted)
    assert abs(found.accuracy - wanted) <= 0.02 and found.formed >= 0.6
    assert abs(accuracy(one) - wanted) < 0.05


def test_the_same_seed_makes_the_same_model_whatever_torch_has_drawn():
    found = []
    for drawn in 0, 7:
        torch.manual_seed(drawn)
        one = learner()
        with pytest.raises(RunFailed):
            train(one, SFT, updates=3, accuracy=1.0, every=2)
        found.append(one.model.state_dict())
        assert torch.equal(torch.rand(2), torch.manual_seed(drawn) and torch.rand(2))
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())
    assert not torch.equal(found[0]["model.norm.weight"], torch.ones(LLAMA["width"]))
    other = learner(seed=1).model.state_dict()
    assert not torch.equal(other["model.embed_tokens.weight"], found[0]["model.embed_tokens.weight"])


def test_what_was_missed_is_said_in_a_line():
    for settings in SFT, MIXTURE:
        with pytest.raises(RunFailed, match=r"after 2 updates, wanted 0\.9") as found:
            train(learner(), settings, accuracy=0.9, updates=2, every=1)
        assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    "task, name, line",
    [
        (CopyDigits(solved=False), "sft", "no right answers to learn from; take start=random"),
        (CopyDigits(wrong=False), "mixture", "no wrong answers to learn from; take start=sft"),
    ],
)
def test_a_task_without_answers_is_refused(task, name, line):
    with pytest.raises(RunFailed, match=line):
        train(learner(task), {"sft": SFT, "mixture": MIXTURE}[name])


def test_answers_that_are_cut_off_are_refused():
    line = "backend.max_completion_length=2: the shortest right answer has 4 tokens"
    with pytest.raises(RunFailed, match=f"^{line}$"):
        train(learner(length=2), SFT)


def test_the_loss_is_that_of_answers_and_their_ends():
    one, pairs = learner(), [("1=", "1"), ("0123=", "01234")]
    batch = warm_up.learned_batch(one, pairs)
    loss = one.model(**batch).loss
    wanted = []
    for prompt, answer in pairs:
        before, after = one.tokenizer(prompt)["input_ids"], [*one.tokenizer(answer)["input_ids"], 1]
        steps = one.model(torch.tensor([before + after])).logits[0].log_softmax(-1)
        wanted += [-steps[len(before) + place - 1, token] for place, token in enumerate(after)]
    torch.testing.assert_close(loss, torch.stack(wanted).mean(), rtol=1e-5, atol=1e-6)
    assert one.tokenizer.eos_token_id == 1


@pytest.mark.parametrize("share", [0.0, 0.25, 0.3, 1.0])
def test_a_lesson_has_the_share_of_right_answers(share):
    one = learner()
    shown = [warm_up.demonstrations(one, update, 10, share) for update in range(200)]
    rights = [sum(prompt[:3] == answer for prompt, answer in pairs) for pairs in shown]
    assert abs(sum(rights) / 2000 - share) < 0.02 and max(rights) - min(rights) <= 1


def test_a_check_that_clearly_fails_is_given_up():
    one = learner()
    examples = one.task.examples(0, Purpose.START_CHECKS, 0, 1024, held_out=True)
    early = warm_up.check_accuracy(one, examples, 0, lambda check: check.right < 0.5)
    whole = warm_up.check_accuracy(one, examples, 0, lambda check: False)
    assert (early.samples, early.whole, whole.samples, whole.whole) == (warm_up.FIRST_LOOK, False, 1024, True)
