"""CS336 lecture 17 rebuilt from this package's parts, with the lecture's own random numbers: its printed rewards.

The lecture draws from torch's global generator with seed 5: embedding, encoder, decoder, then all responses of an
epoch by ``torch.multinomial``. Everything else is the package's: model, reward, norm, clip, agg, Adam.
"""

from pathlib import Path

import pytest
import torch

from rlexp.axes import agg, clip, norm
from rlexp.loop.optimizer import Adam, Schedule
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.tasks.sort import SortLecture

WEIGHTS = {"distance": 0.0, "inclusion_ordering": 1.0, "multiset_ordering": 0.0}
TASK = SortLecture(cap=3, weights=WEIGHTS, metric="eval/reward", floor=0.0)
RESPONSES, EPOCHS, INNER_STEPS = 10, 100, 10
PRINTED = {
    "none": {0: 2.333, 10: 2.667, 99: 2.667},
    "center": {0: 2.333, 10: 3.0, 99: 3.333},
    "local": {0: 2.333, 10: 3.033, 99: 3.333},
}
ARMS = {"none": {}, "center": {}, "local": {"eps": 1e-5, "ddof": 1}}


def lecture_model():
    torch.manual_seed(5)
    model = MODELS["positional"](Init([0]), TASK, width=10)
    with torch.no_grad():
        model.embedding.weight[0] = torch.randn(5, 10)
        model.encoder[0] = torch.randn(3, 10, 10) / 10**0.5
        model.decoder[0] = torch.randn(3, 10, 10) / 10**0.5
    return model


def lecture_responses(model, prompts):
    probabilities = model.answer_logits(prompts)[0].softmax(-1).flatten(0, 1)
    drawn = torch.multinomial(probabilities, RESPONSES, replacement=True)
    return drawn.view(len(SortLecture.lecture_prompts), 3, RESPONSES).transpose(1, 2).unsqueeze(0)


def train(arm):
    model, prompts = lecture_model(), torch.tensor(SortLecture.lecture_prompts).unsqueeze(0)
    one = torch.ones(1)
    adam = Adam(model, Schedule(1e-3 * one, 0 * one, one, EPOCHS * INNER_STEPS), torch.full((1,), torch.inf))
    every = torch.ones(1, len(SortLecture.lecture_prompts), RESPONSES, dtype=torch.bool)
    means = []
    for _ in range(EPOCHS):
        with torch.no_grad():
            responses = lecture_responses(model, prompts)
        mask = torch.ones_like(responses, dtype=torch.bool)
        rewards = TASK.score(prompts, responses, mask, every).components["inclusion_ordering"]
        means.append(rewards.mean().item())
        advantages = norm.FUNCTIONS[arm](rewards, every, **ARMS[arm]).unsqueeze(-1).expand(-1, -1, -1, 3)
        for _ in range(INNER_STEPS):
            log_probs = model(prompts, responses).log_softmax(-1).gather(-1, responses.unsqueeze(-1)).squeeze(-1)
            agg.bnpo(clip.naive(log_probs, log_probs.detach(), advantages, mask), mask).sum().backward()
            adam.step()
    return means


@pytest.mark.holds("S2.13")
def test_the_page_has_the_rewards_that_the_lecture_ended_with():
    page = " ".join((Path(__file__).parents[2] / "docs/lecture17.md").read_text(encoding="utf-8").split())
    none, center, local = (PRINTED[arm][EPOCHS - 1] for arm in ("none", "center", "local"))
    ended = (
        f"{none} with raw, {center} with centered and {local} with normalised rewards in the last of {EPOCHS} epochs"
    )
    assert ended in page


@pytest.mark.holds("S2.9", "S2.13")
@pytest.mark.slow
@pytest.mark.parametrize(("arm", "printed"), PRINTED.items())
def test_the_lecture_printed_these_rewards(arm, printed):
    means = train(arm)
    assert {epoch: round(means[epoch], 3) for epoch in printed} == printed
