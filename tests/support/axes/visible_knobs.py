"""Values of knobs at which a test of a small batch sees that they are obeyed."""

from __future__ import annotations

# Other values of knobs of which three quarters decide the same for every token of a small batch.
VISIBLE = {
    ("clip_cov", "share"): 0.3,
    **{(name, "ties"): "neutral" for name in ("prm", "prm_binary", "prm_persistent", "prm_length", "prm_position")},
    **{(name, "ties"): "neutral" for name in ("prm_weighted", "prm_weighted_binary")},
    ("prm_length", "cap"): 8,
    **{(name, "votes"): 4 for name in ("prm", "prm_binary", "prm_persistent", "prm_length", "prm_position")},
    **{(name, "accuracies"): [0.4, 0.6, 0.7, 0.9] for name in ("prm_weighted", "prm_weighted_binary")},
    ("clip_cov", "lb"): 0.01,
    ("clip_cov", "ub"): 1.2,
    ("kl_cov", "share"): 0.3,
    ("opsm", "delta"): 0.1,
    ("m2po_clipped", "budget"): 0.01,
    ("dual", "c"): 1.3,
    ("sequence_mask", "low"): 0.8,
    ("sequence_mask", "high"): 1.1,
    ("sequence_truncate", "low"): 0.8,
    ("sequence_truncate", "high"): 1.1,
    ("token_mask", "low"): 0.8,
    ("token_mask", "high"): 1.1,
    ("token_truncate", "low"): 0.8,
    ("token_truncate", "high"): 1.1,
    ("geometric_mask", "low"): 0.9,
    ("geometric_mask", "high"): 1.1,
    ("geometric_reject", "low"): 0.7,
    ("geometric_reject", "high"): 1.4,
    ("divergence_reject", "high"): 0.1,
    ("truncate_and_reject", "most"): 0.95,
    ("truncate_and_reject", "low"): 0.7,
    ("truncate_and_reject", "high"): 1.4,
    ("two_sided", "delta"): 1.3,
    ("cispo", "lower"): 0.9,
    ("cispo", "upper"): 1.1,
    ("dppo_tv", "upper"): 1.1,
    ("dppo_kl", "upper"): 1.1,
    ("dppo_kl", "low"): 0.01,
    ("dppo_kl", "high"): 0.01,
    ("dpo", "pairs"): "best_worst",
    ("dpo", "label_smoothing"): 0.2,
    ("ipo", "pairs"): "best_worst",
}
# They show at other values of other knobs only: an odd number of votes for one of two values has no ties.
UNSEEN = {("prm_binary", "ties")}
