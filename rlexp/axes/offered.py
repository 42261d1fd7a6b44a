"""What the training step offers to axis functions: each takes what it needs by name, by position, with these types.

Every axis has its table, ``INPUTS``, made of what is here. What somebody asks for is computed; what nobody asks for
costs nothing. Tokens that do not count (outside ``mask``) hold numbers of no meaning.
"""

from __future__ import annotations

from rlexp.core.registry import Offer
from rlexp.core.types import (
    CompletionMask,
    Completions,
    PerCompletion,
    PerComponent,
    PerPlaceOfCompletion,
    PerPrompt,
    PerReplica,
    PerToken,
    PromptNumbers,
    Prompts,
    TokenMask,
    Weights,
)

FINAL = "rewards after shaping and KL in the reward"

# What was sampled.
TOKENS = {
    "prompts": Offer(Prompts, "token ids of the prompts"),
    "completions": Offer(Completions, "token ids of the completions"),
    "old_log_probs": Offer(PerToken, "log π of the tokens, by the policy that sampled, fixed through the inner steps"),
    "sampler_log_probs": Offer(PerToken, "log-probs that the tokens were drawn from: old_log_probs, but for `sampler`"),
    "mask": Offer(
        TokenMask,
        "tokens that count: up to the end token, which does, without those that the task's environment writes; in a "
        "loss those that `filter` keeps",
    ),
}
FINISHED = {"finished": Offer(CompletionMask, "completions that ended by themselves, not at the cap")}

# What the task and the policy say of it.
SCORES = {
    "rewards": Offer(PerCompletion, "rewards of the task, NaN where there is none"),
    "components": Offer(PerComponent, "reward components of the task that have a weight, NaN where one does not apply"),
    "weights": Offer(Weights, "weights of these components"),
    "correct": Offer(PerCompletion, "1 where the task's verifier says so, else 0"),
    "greedy_rewards": Offer(PerPrompt, "the task's reward of the greedy completion; costs a completion a prompt"),
    "reference_rewards": Offer(
        PerCompletion,
        "rewards of as many completions of the prompt by the reference, before shaping; costs these completions",
    ),
    "lengths": Offer(PerCompletion, "tokens of the completion, the end token and those of an environment included"),
    "entropies": Offer(PerToken, "entropy of the policy that sampled at each token, in nats"),
    "sum_pi_squared": Offer(PerToken, "Σ_v π(v)² of the policy that sampled at each token"),
    "drawn": Offer(PerCompletion, "uniform in [0, 1), drawn anew at every step"),
    "hashed": Offer(PerCompletion, "uniform in [0, 1), the same for a prompt and completion through the whole run"),
}
SAMPLED = TOKENS | FINISHED | SCORES

# Which of the prompts that a run is trained on again and again (``task.prompt_set``) each prompt is.
KNOWN = {"prompt_numbers": Offer(PromptNumbers, "place of each prompt in the set of its run; 0 without a set")}

# What the verifier of the task says, whoever judges in training.
OF_VERIFIER = {"components", "weights", "correct"}

# What shaping and KL in the reward have made of the rewards.
SHAPED = {
    "rewards": Offer(PerCompletion, f"{FINAL}, 0 where there is none"),
    "outcomes": Offer(PerCompletion, "rewards after shaping, before KL in the reward: rewards + Σ_t token_penalties"),
    "adjustments": Offer(PerCompletion, "what shaping and KL in the reward have added to the task's rewards"),
    "scored": Offer(CompletionMask, "completions that have a reward"),
}
REWARDS = {"rewards", "outcomes", "adjustments", "token_rewards"}  # who asks for none of these does not look at rewards
ADVANTAGES = {"advantages": Offer(PerToken, "advantages, 0 where a completion is outside the statistics")}

# What a critic says of it; without one nobody may ask.
VALUES = {
    "values": Offer(PerPlaceOfCompletion, "the critic's value before each token and after the last, T + 1 of them")
}

# What remains of a step for its updates, and for what is remembered after it.
REFERENCE = {"ref_log_probs": Offer(PerToken, "log π_ref of the tokens, by the reference policy")}
KEEP = {"keep": Offer(CompletionMask, "completions in the statistics")}
EXPERIENCE = TOKENS | REFERENCE | KEEP | ADVANTAGES | KNOWN
REMEMBERED = EXPERIENCE | {
    "rewards": Offer(PerCompletion, f"{FINAL}, 0 outside the statistics"),
    "all_rewards": Offer(PerCompletion, f"{FINAL}, in or outside the statistics, NaN where there is none"),
}
BOUND = {"log_ratio_bound": Offer(PerReplica, "largest size of a log-ratio before it is exponentiated, inf for none")}
LOG_PROBS = {"log_probs": Offer(PerToken, "log π of the tokens, by the policy that is trained; carries the gradient")}
LOSS = EXPERIENCE | LOG_PROBS
LOSS |= {
    "rewards": Offer(PerCompletion, f"{FINAL}, NaN where there is none"),
    "mean_tokens": Offer(PerReplica, "tokens that count in the whole rollout, over the number of its minibatches"),
    "progress": Offer(PerReplica, "share of the run's updates that are done"),
}
LOSS |= BOUND
LOSSES = {"losses": Offer(PerToken, "losses of the tokens")}
