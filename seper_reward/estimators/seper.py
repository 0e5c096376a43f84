"""Belief in the gold answers from sampled responses (SePer, arXiv:2503.01478): pure functions on tensors.

Paper and official code (sepermetric/seper) differ; each difference is an option of ``Estimator``, which has both as
presets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from seper_reward.options import check_choice

Weighting = Literal["mass", "uniform", "sequence", "mean_token"]
EndToken = Literal["counted", "left_out"]
Aliases = Literal["mean", "max", "any"]
Kernel = Literal["forward", "max"]
Match = Literal["threshold", "equivalent", "no_contradiction"]
Clusters = Literal["components", "complete", "greedy"]
JudgedBy = Literal["members", "all", "first"]
JudgedTexts = Literal["cleaned", "verbatim"]


@dataclass(frozen=True)
class Estimator:
    """The options of SePer; the defaults have the smallest error (docs/results.md).

    Attributes:
        weighting: Probability of a response (``response_weights``). ``"mass"`` uses the probability of its draw and
            divides the mass of undrawn responses among the nearest ones (``draws.drawn_by_mass``); if probabilities
            are unknown, it is ``"uniform"``.
        end_token: Whether the token that ends a response counts in its probability (``without_end_token``).
        aliases: How gold answers are combined (``join_answers``); ``"max"`` scores right responses with two different
            aliases as half right.
        hard_aliases: The same for hard SePer, where ``"any"`` sums the mass of all clusters that match some answer
            (default: ``aliases``).
        kernel: Direction of entailment that supports an answer (``entailment_kernel``).
        match: Condition under which a response matches an answer in hard SePer: the kernel reaches ``threshold``; each
            entails the other with at least that probability (``"equivalent"``, Definition 2 and eq. 8); or
            ``no_contradiction``. ``"equivalent"`` and ``"no_contradiction"`` read both directions whatever the
            kernel. Two responses mean the same if each entails the other, with probability ``threshold`` or, for
            ``"no_contradiction"``, as the most probable class.
        threshold: The threshold τ of ``match="threshold"`` and ``"equivalent"``, in (0, 1].
        clusters: Grouping of responses that mean the same (``cluster_ids``).
        judged_by: Members that decide whether a cluster is gold (``match_clusters``).
        judged_texts: ``"cleaned"`` compares equal texts and values without the entailment model (``judge.decide``).
            ``"verbatim"`` passes all texts unchanged, after the question, which gets a ``?`` if it has none.
    """

    weighting: Weighting = "mass"
    end_token: EndToken = "counted"
    aliases: Aliases = "any"
    hard_aliases: Aliases | None = None
    kernel: Kernel = "forward"
    match: Match = "threshold"
    threshold: float = 0.5
    clusters: Clusters = "components"
    judged_by: JudgedBy = "members"
    judged_texts: JudgedTexts = "cleaned"

    def __post_init__(self) -> None:
        for name, allowed in get_type_hints(type(self)).items():
            if get_origin(allowed) is Literal:
                check_choice(name, getattr(self, name), get_args(allowed))
        if self.hard_aliases is not None:
            check_choice("hard_aliases", self.hard_aliases, get_args(Aliases))
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must lie in (0, 1], got {self.threshold}")

    @classmethod
    def preset(cls, name: str, **changes: object) -> "Estimator":
        """Return the preset ``default``, ``paper`` or ``official``, with single options changed.

        >>> Estimator.preset("official", aliases="mean").weighting
        'mean_token'
        """
        check_choice("estimator", name, tuple(_PRESETS))
        return cls(**{**_PRESETS[name], **changes})  # type: ignore[arg-type]


_PRESETS: dict[str, dict[str, object]] = {
    "default": {},
    "paper": {
        "weighting": "sequence",
        "aliases": "mean",
        "kernel": "forward",
        "match": "equivalent",
        "clusters": "complete",
        "judged_by": "all",
        "judged_texts": "verbatim",
    },
    "official": {
        "weighting": "mean_token",
        "end_token": "left_out",
        "aliases": "max",
        "hard_aliases": "any",
        "kernel": "max",
        "match": "no_contradiction",
        "clusters": "greedy",
        "judged_by": "first",
        "judged_texts": "verbatim",
    },
}


def without_end_token(token_log_probs: Sequence[Tensor], finished: Sequence[bool]) -> list[Tensor]:
    """Drop the last token of each response that was not cut off at the maximum length (official code).

    This is the end-of-sequence token or the last token of a stop string; earlier tokens of a stop string stay. A
    response of one token keeps it. ``finished`` has an entry for each response.
    """
    if len(finished) != len(token_log_probs):
        raise ValueError(
            f"finished must have one entry for each of {len(token_log_probs)} responses, got {len(finished)}; "
            "end_token='counted' works without it"
        )
    return [
        log_probs[:-1] if ended and len(log_probs) > 1 else log_probs
        for log_probs, ended in zip(token_log_probs, finished, strict=True)
    ]


def response_weights(token_log_probs: Sequence[Tensor], weighting: str) -> Tensor:
    """Estimate p(r | q) over the sampled responses, normalised to sum to 1 (eq. 7-8).

    ``sequence`` multiplies the token probabilities, and ``mean_token`` uses their geometric mean (official code).
    ``uniform`` gives each sample 1/S: likely responses are already sampled more often, and weighting them by p would
    count probability twice.

    Args:
        token_log_probs: S tensors ``(T_s,)`` of natural-log token probabilities; an empty tensor has probability 1.
        weighting: ``"uniform"``, ``"sequence"`` or ``"mean_token"``.

    Returns:
        ``(S,)`` weights that sum to 1, in the inputs' dtype (float32 at least; computed in float64); equal weights if
        every response has probability 0.

    Raises:
        ValueError: There is no response, a log-probability is NaN, or the weighting is unknown.

    >>> response_weights([torch.tensor([0.5, 0.5]).log(), torch.tensor([0.75]).log()], "sequence")
    tensor([0.2500, 0.7500])
    """
    check_choice("weighting", weighting, ("uniform", "sequence", "mean_token"))
    if not token_log_probs:
        raise ValueError("token_log_probs must contain at least one response, got none")
    if any(bool(torch.isnan(log_probs).any()) for log_probs in token_log_probs):
        raise ValueError("token_log_probs must not contain NaN; the reader's logits are broken (try dtype='float32')")
    if weighting == "uniform":
        log_scores = torch.zeros(len(token_log_probs), dtype=torch.float64)
    else:
        log_scores = torch.stack([log_probs.detach().cpu().double().sum() for log_probs in token_log_probs])  # (S,)
    if weighting == "mean_token":
        lengths = torch.tensor([max(log_probs.numel(), 1) for log_probs in token_log_probs])
        log_scores = log_scores / lengths  # mean over tokens: sequence sums favour short answers
    if bool(torch.isneginf(log_scores).all()):
        log_scores = torch.zeros_like(log_scores)
    return log_scores.softmax(0).to(torch.promote_types(token_log_probs[0].dtype, torch.float32))


def entailment_kernel(forward: Tensor, backward: Tensor | None, kernel: str) -> Tensor:
    """Combine entailment of answer by response and of response by answer into support k(r, a).

    Tensors are ``(S, A)``, in [0, 1]. The kernel is ``"forward"`` or ``"max"`` of both directions (official code),
    which raises ``ValueError`` without ``backward``.
    """
    check_choice("kernel", kernel, get_args(Kernel))
    if kernel == "forward":
        return forward
    if backward is None:
        raise ValueError(f"kernel={kernel!r} needs the backward direction, got None")
    return torch.maximum(forward, backward)


def no_contradiction(forward: Tensor, backward: Tensor) -> Tensor:
    """Decide whether two texts match by the official code's rule for gold answers.

    The likeliest class must not be contradiction in either direction, nor neutral in both. Class probabilities of both
    directions, ``(..., K)`` in the order entailment, neutral, contradiction, any others, give ``(...)`` bool. Fewer
    than three classes raise ``ValueError``.

    >>> entails, neutral, contradicts = torch.eye(3)
    >>> [bool(no_contradiction(neutral, other)) for other in (entails, neutral, contradicts)]
    [True, False, False]
    """
    if forward.shape[-1] < 3:
        raise ValueError(
            "match='no_contradiction' needs an entailment model with classes for neutral and contradiction, got one "
            f"with {forward.shape[-1]} classes; use match='threshold' or another entailment model"
        )
    classes, others = forward.argmax(-1), backward.argmax(-1)
    return (classes != 2) & (others != 2) & ~((classes == 1) & (others == 1))


def join_answers(weights: Tensor, support: Tensor, aliases: str) -> Tensor:
    """Return the support of the gold answer by each response, from its support of each alias.

    Args:
        weights: ``(S,)`` response probabilities, sum to 1; they decide which alias has the most mass.
        support: ``(S, A)`` entailment of answer by response, in [0, 1].
        aliases: ``"any"`` uses the best supported answer of each response, ``"mean"`` averages over answers (eq. 10),
            ``"max"`` uses the answer with the most mass (official code).

    Returns:
        ``(S,)`` in [0, 1], whose weighted mean is SePer.

    Raises:
        ValueError: The sample axes differ, there is no answer, or ``aliases`` is unknown.

    >>> join_answers(torch.tensor([0.5, 0.5]), torch.tensor([[1.0, 0.0], [0.0, 0.5]]), "any")
    tensor([1.0000, 0.5000])
    """
    if support.ndim != 2 or weights.ndim != 1 or len(weights) != len(support):
        raise ValueError(
            f"weights (S,) and support (S, A) must share S, got {tuple(weights.shape)} and {tuple(support.shape)}"
        )
    check_choice("aliases", aliases, get_args(Aliases))
    if support.shape[1] == 0:
        raise ValueError("support must have at least one answer, got A=0; drop unanswerable questions first")
    if aliases == "any":
        return support.amax(1)
    return support.mean(1) if aliases == "mean" else support[:, (weights @ support.to(weights)).argmax()]


def seper_soft(weights: Tensor, support: Tensor, aliases: str = "mean") -> Tensor:
    """Belief mass on the gold answers (SePer_S, arXiv:2503.01478, eq. 9-10).

    Arguments and errors are those of ``join_answers``. Returns a scalar in [0, 1]; higher means a stronger belief.

    >>> support = torch.tensor([[0.9, 0.1], [0.4, 0.2], [0.0, 0.7]])
    >>> round(float(seper_soft(torch.tensor([0.5, 0.3, 0.2]), support)), 6)
    0.41
    """
    return (weights @ join_answers(weights, support, aliases).to(weights)).clamp(0.0, 1.0)


def seper_hard(weights: Tensor, cluster_ids: Tensor, cluster_support: Tensor, aliases: str = "mean") -> Tensor:
    """Belief mass of the clusters that match the gold answers (SePer_H, arXiv:2503.01478, eq. 9-10).

    Arguments, errors and the scalar are those of ``seper_soft``, with clusters in place of responses: ``"any"`` sums
    over the clusters that match some answer (official code). ``cluster_ids``, ``(S,)``, are integers in [0, C);
    ``cluster_support``, ``(C, A)`` bool, is whether the cluster matches the answer (``match_clusters``).

    >>> ids, gold = torch.tensor([0, 1, 0]), torch.tensor([[True], [False]])
    >>> round(float(seper_hard(torch.tensor([0.5, 0.3, 0.2]), ids, gold)), 6)
    0.7
    """
    if cluster_support.ndim != 2 or weights.shape != cluster_ids.shape:
        raise ValueError(
            "weights and cluster_ids must be (S,) and cluster_support (C, A), got "
            f"{tuple(weights.shape)}, {tuple(cluster_ids.shape)} and {tuple(cluster_support.shape)}"
        )
    if len(cluster_ids) and not 0 <= int(cluster_ids.min()) <= int(cluster_ids.max()) < len(cluster_support):
        raise ValueError(f"cluster_ids must lie in [0, {len(cluster_support)}), got {cluster_ids.tolist()}")
    return seper_soft(weights, cluster_support[cluster_ids].to(weights), aliases)


def match_clusters(
    cluster_ids: Tensor, support: Tensor, threshold: float, judged_by: str = "members", counts: Tensor | None = None
) -> Tensor:
    """Decide which clusters are gold: k(C, a), compared with τ.

    Args:
        cluster_ids: ``(S,)`` integers in [0, C).
        support: ``(S, A)`` in [0, 1]; for ``no_contradiction`` it is 1 if the response matches, else 0.
        threshold: τ in (0, 1].
        judged_by: ``"members"`` uses the mean support of all members, ``"all"`` the least (the paper's Algorithm 1),
            ``"first"`` that of the first (official code).
        counts: ``(S,)`` number of draws of each response, where 0 counts like 1 (default: 1 each).

    Returns:
        ``(C, A)`` bool.
    """
    check_choice("judged_by", judged_by, get_args(JudgedBy))
    members = torch.nn.functional.one_hot(cluster_ids).to(support).T  # (C, S)
    if judged_by == "first":
        return support[members.argmax(1)] >= threshold
    if judged_by == "all":
        return torch.stack([support[member.bool()].amin(0) for member in members]) >= threshold
    if counts is not None:
        members = members * counts.clamp(min=1).to(members)
    return members @ support / members.sum(1, keepdim=True) >= threshold
