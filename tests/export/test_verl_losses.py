"""verl's config, losses and advantages, made from what is exported, against a training step on the same tensors.

Needs verl, which wants vLLM and a GPU only where it samples; how to install it for this is in docs/export.md.
"""

from __future__ import annotations

import pytest
import torch
from small_runs import compose
from verl_losses import (
    batch,
    distances,
    handed_over,
    index_of,
    our_advantages,
    rewarded,
    rows,
    verl_advantages,
    verl_config,
)

from rlexp.core.masked import per_token
from rlexp.export.verl_advantages import THERE, example

pytest.importorskip("verl.workers.utils.losses", reason="verl is not installed: docs/export.md")
pytest.importorskip("verl.trainer.ppo.core_algos")

pytestmark = pytest.mark.slow

CLOSE = 1e-6  # verl adds 1e-8 to some denominators
PENALTY = ["kl.coef=0.3"]
SEQUENCE = ["agg=sequence"]
LOSSES = [
    ["clip=naive"],
    ["clip=unclipped"],
    ["clip=symmetric"],
    ["clip=higher"],
    ["clip=dual"],
    ["clip=dual", "clip.c=1.2"],
    ["clip=two_sided"],
    ["clip=cispo_two_sided"],
    ["clip=dppo_tv"],
    ["clip=dppo_kl"],
    ["clip=dro"],
    ["clip=kl_cov", "clip.share=0.2"],
    ["clip=clip_cov", "clip.share=1", "clip.lb=0.1"],
    ["clip=sapo", *SEQUENCE],
    ["clip=gspo", "clip.low=0.02", "clip.high=0.03", *SEQUENCE],
    ["clip=gspo_token", "clip.low=0.02", "clip.high=0.03", *SEQUENCE],
    ["clip=gmpo", *SEQUENCE],
    ["agg=bnpo"],
    ["agg=sequence"],
    ["agg=sequence_sum"],
    ["agg=dr_grpo", "agg.length=7"],
    ["kl=k2", "kl.place=loss", *PENALTY],
    ["kl=k3", *PENALTY],
    ["kl=low_var_kl", *PENALTY],
    ["kl=abs", "kl.place=loss", *PENALTY],
    ["kl=k1_plus", *PENALTY],
    ["kl=k3_plus", *PENALTY],
    ["clip=sapo", "kl=k3", *PENALTY, *SEQUENCE],
    ["clip=gspo", "kl=k3", *PENALTY, *SEQUENCE],
    ["clip=gmpo", "kl=k3", *PENALTY, *SEQUENCE],
    ["mismatch=token_truncate", "mismatch.high=1.2"],
    ["mismatch=token_mask", "mismatch.low=0.8", "mismatch.high=1.2"],
    ["mismatch=token_mask", "mismatch.low=0", "mismatch.high=1.2"],
    ["mismatch=sequence_truncate", "mismatch.high=1.2"],
    ["mismatch=sequence_mask", "mismatch.high=1.5"],
]


@pytest.mark.parametrize("overrides", LOSSES, ids=" ".join)
def test_the_loss_is_that_of_verl(overrides):
    assert max(distances((*overrides, "minibatches=1"), batch())) < CLOSE


BOUNDED = [
    ["clip=unclipped"],
    ["clip=symmetric"],
    ["clip=dual"],
    ["clip=two_sided"],
    ["clip=cispo_two_sided"],
    ["clip=dppo_tv"],
    ["clip=dppo_kl"],
    ["clip=sapo", *SEQUENCE],
    ["kl=low_var_kl", *PENALTY],
    ["mismatch=token_truncate"],
    ["mismatch=token_mask"],
    ["mismatch=sequence_truncate"],
    ["mismatch=sequence_mask"],
]


@pytest.mark.parametrize("overrides", BOUNDED, ids=" ".join)
def test_the_loss_is_that_of_verl_where_policies_are_1000_nats_apart(overrides):
    tensors, random = batch(), torch.Generator().manual_seed(9)
    for name in ("log_probs", "old_log_probs", "ref_log_probs", "sampler_log_probs"):
        far = torch.randint(4, tensors[name].shape, generator=random)
        tensors[name] = tensors[name] - torch.tensor([0.0, 25.0, 100.0, 1000.0])[far]
    assert max(distances((*overrides, "minibatches=1"), tensors)) < CLOSE


NORMS = ["center", "local", "rloo", "opo", "remax", "grpo_passk", "reinforce_pp", "reinforce_pp_baseline"]
KL = ["kl=k1", "kl.place=reward"]


def advantages(*overrides, penalty=0.0):
    """Ours and verl's."""
    tensors, config = rewarded(penalty), compose(*overrides)
    return our_advantages(config, tensors), verl_advantages(overrides, tensors, **handed_over(config, tensors))


@pytest.mark.parametrize("name", NORMS)
def test_the_advantages_are_those_of_verl(name):
    torch.testing.assert_close(*advantages(f"norm={name}"), rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("name", ["center", "local", "rloo", "opo", "reinforce_pp"])
def test_the_advantages_of_penalised_rewards_are_those_of_verl(name):
    torch.testing.assert_close(*advantages(f"norm={name}", *KL, penalty=1.0), rtol=CLOSE, atol=CLOSE)


def test_gpg_of_verl_has_another_scale():
    ours, theirs = advantages("norm=gpg")
    ratios = theirs[ours != 0] / ours[ours != 0]
    torch.testing.assert_close(ratios, ratios[:1].expand_as(ratios))


def test_the_optimal_baseline_of_verl_ends_where_one_completion_is_left():
    """There the longest completion keeps its return, here it has no advantage."""
    ours, theirs = advantages("norm=optimal_token")
    alone = rows(rewarded()["mask"]).view(3, 4, -1).sum(1, keepdim=True).expand(3, 4, -1).reshape(ours.shape) == 1
    torch.testing.assert_close(ours[~alone], theirs[~alone], rtol=CLOSE, atol=CLOSE)
    assert (ours[alone] == 0).all()


# ---- where verl and a training step here differ, as the export says


@pytest.mark.parametrize("name", ["remax", "reinforce_pp_baseline"])
def test_penalised_rewards_are_other_advantages_in_verl(name):
    ours, theirs = advantages(f"norm={name}", *KL, penalty=1.0)
    assert (ours - theirs).abs().max() > 0.01


@pytest.mark.parametrize(
    ("overrides", "shared_advantage"),
    [
        (["clip=gspo"], False),
        (["clip=gspo", "mismatch=token_mask"], True),
        (["clip=gmpo", "mismatch=token_mask"], True),
    ],
)
def test_one_ratio_a_completion_has_another_gradient_in_verl_where_tokens_differ(overrides, shared_advantage):
    """For ``gspo_token`` verl's is the same."""
    wide = ["agg=sequence", "clip.low=0.9", "clip.high=9", "minibatches=1"]
    assert distances((*overrides, *wide), batch(shared_advantage))[1] > 0.01
    if "clip=gspo" in overrides:
        by_token = ["clip=gspo_token", *overrides[1:]]
        assert max(distances((*by_token, *wide), batch(shared_advantage))) < CLOSE


def test_gdpo_of_verl_ends_with_a_whitening_over_tokens():
    """Here over completions: the same up to one scale and one shift, if the components weigh the same."""
    config = compose("norm=gdpo", "task.weights.format=0.3")
    tensors = rewarded()
    components = torch.randn(*tensors["outcomes"].shape, 3, generator=torch.Generator().manual_seed(1)).double()
    weights = [weight for weight in config.task.weights.values() if weight]
    tensors |= {"components": components, "weights": torch.tensor([weights]).double()}
    mask = rows(tensors["mask"])
    overrides = ("norm=gdpo", "task.weights.format=0.3")
    theirs = verl_advantages(overrides, tensors, **handed_over(config, tensors))[mask]
    ours = our_advantages(config, tensors)[mask]
    design = torch.stack([ours, torch.ones_like(ours)], -1)
    fitted = design @ torch.linalg.lstsq(design, theirs.double().unsqueeze(-1)).solution
    torch.testing.assert_close(fitted.squeeze(-1), theirs.double(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", THERE)
def test_what_an_export_measures_differences_to_is_what_verl_makes(name):
    overrides = (f"norm={name}", *KL, "kl.coef=0.1", *(["critic=value"] if name == "gae_whitened" else []))
    config = compose(*overrides)
    tensors = example(config)
    given = {key: tensor.unsqueeze(0) for key, tensor in tensors.items()}
    theirs = verl_advantages(overrides, given, **handed_over(config, given))
    found = per_token(THERE[name](tensors, config.norm), tensors["mask"]).expand(tensors["mask"].shape)
    mask = tensors["mask"]
    torch.testing.assert_close(found[mask].float(), theirs[mask.flatten(0, 1)].float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.long, torch.bool, torch.float])
def test_gdpo_runs_in_the_legacy_trainer_with_what_is_exported(kind):
    """With ``attention_mask`` of whole numbers, as verl's loop of agents makes it; it indexes by its sums."""
    trainer = pytest.importorskip("verl.trainer.ppo.ray_trainer", reason="verl's trainer wants more packages")
    from verl import DataProto

    config, settings = compose("norm=gdpo"), verl_config("norm=gdpo")
    tensors = {key: tensor.unsqueeze(0) for key, tensor in example(config).items()}
    given, mask = handed_over(config, tensors), rows(tensors["mask"])
    batch = given["batch"] | {"attention_mask": given["batch"]["attention_mask"].to(kind)}
    batch |= {"response_mask": mask.long(), "token_level_rewards": torch.zeros(mask.shape)}
    names = {"uid": index_of(tensors).astype(object)} | given["non_tensor_batch"]
    data = DataProto.from_dict(tensors=batch, non_tensors=names)
    assert not settings.trainer.use_v1
    if kind is torch.float:
        with pytest.raises(IndexError):
            trainer.compute_advantage(data, settings.algorithm.adv_estimator, config=settings.algorithm)
        return
    made = trainer.compute_advantage(data, settings.algorithm.adv_estimator, config=settings.algorithm)
    expected = rows(THERE["gdpo"](example(config), config.norm).unsqueeze(0))
    torch.testing.assert_close(made.batch["advantages"][mask].double(), expected[mask], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["local", "rloo", "remax", "gdpo", "optimal_token"])
def test_the_v1_trainer_of_verl_lacks_what_some_norms_need(name):
    """What it hands over is the same for all; the export sends those that need more to the legacy trainer."""
    np = pytest.importorskip("numpy")
    trainer = pytest.importorskip("verl.trainer.ppo.ray_trainer", reason="verl's trainer wants more packages")
    from verl import DataProto

    names = ("token_level_rewards", "token_level_scores", "rollout_log_probs", "old_log_probs")
    handed = dict.fromkeys(names, torch.randn(8, 5)) | {"response_mask": torch.ones(8, 5)}
    data = DataProto.from_dict(tensors=handed, non_tensors={"uid": np.array([*"aaaabbbb"], dtype=object)})
    config = verl_config(f"norm={name}")
    if config.trainer.use_v1:
        trainer.compute_advantage(data, config.algorithm.adv_estimator, config=config.algorithm)
        return
    with pytest.raises((TypeError, KeyError, AssertionError)):
        trainer.compute_advantage(data, config.algorithm.adv_estimator, config=config.algorithm)
