"""TRL's GRPOTrainer with credit per turn: the tokens of each message of the policy have their own advantage."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from seper_reward.reward.credit import Credit, advantages_over_reader, credit_of
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.rollouts import Rollout, Score

Records = list[tuple[Rollout, Score | None]]


class TurnCreditGRPOTrainer(GRPOTrainer):
    """GRPO in which each message of the policy gets credit for its own reward and for later rewards.

    ``credit.py`` has the formula. Advantages have the shape ``(B, T)``, which TRL's losses accept. Reward functions
    other than ``SePerReward`` still count for all tokens. The baseline is the reward of the reader's immediate answer,
    which shows the value of a search even if all rollouts of a group search. A message's tokens are found by TRL's
    tool mask (of tools, environments, or ``env_mask`` of a ``rollout_func``). If the messages of a rollout cannot be
    separated, or the rollout was not scored, all its tokens get one advantage, as in ``GRPOTrainer``; the metric
    ``credit/whole_rollouts`` is the share of such rollouts.

    Args:
        *args: Arguments of ``GRPOTrainer``. At least one of ``reward_funcs`` must be a ``SePerReward``, with weights
            of answer and gain above 0. Rewards must not be scaled (``scale_rewards="none"``): the deviation of rewards
            can be 0 although their parts differ.
        **kwargs: Further arguments of ``GRPOTrainer``.

    Attributes:
        undivided: Number of rollouts with one advantage for all tokens, by reason.

    Raises:
        ValueError: A setting is out of range, or conflicts with the rewards or with TRL's settings.
        RuntimeError: This release of TRL lacks a method that this class overrides.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        for name in ("_calculate_rewards", "_generate_and_score_completions"):
            if not hasattr(GRPOTrainer, name):
                raise RuntimeError(f"this release of TRL has no GRPOTrainer.{name}; credit per turn needs trl 1.16")
        super().__init__(*args, **kwargs)
        self.undivided: Counter[str] = Counter()
        self._credited = {at: reward for at, reward in enumerate(self.reward_funcs) if isinstance(reward, SePerReward)}
        self._gathered_rewards: Tensor | None = None
        weights = [reward.weights for reward in self._credited.values()]
        refuse_credit(weights, self)

    def _calculate_rewards(self, *args: object, **kwargs: object) -> Tensor:
        self._gathered_rewards = super()._calculate_rewards(*args, **kwargs)
        return self._gathered_rewards

    def _generate_and_score_completions(self, inputs: object) -> dict[str, object]:
        with ExitStack() as stack:
            records = {at: stack.enter_context(reward.recording()) for at, reward in self._credited.items()}
            batch: dict[str, object] = super()._generate_and_score_completions(inputs)
        batch["advantages"] = self._token_advantages(batch, records)
        return batch

    def _token_advantages(self, batch: Mapping[str, Any], records: Mapping[int, Records]) -> Tensor:
        """Return advantages ``(B, T)``: TRL's, with the share of each ``SePerReward`` divided by messages."""
        rewards = self._gathered_rewards
        assert rewards is not None
        whole: Tensor = batch["advantages"]  # (B,)
        advantages = whole[:, None].repeat(1, batch["completion_ids"].shape[1])
        size = self.num_generations if self.model.training else self.num_generations_eval
        here = slice(self.accelerator.process_index * len(whole), None)
        undivided = torch.zeros(len(whole))
        for at, scored in records.items():
            reward, weight = self._credited[at], float(self.reward_weights[at])
            earned = [credit_of(*record) for record in scored]
            shares = _subtract_group_mean(rewards, at, size)[here]
            for place, credit in enumerate(earned):
                messages = self._messages_of_tokens(batch, place, credit)
                if isinstance(messages, str):
                    undivided[place] = 1
                    self.undivided[messages] += 1
                    continue
                score = scored[place][1]
                assert score is not None
                assert not isinstance(credit, str)
                own_values = advantages_over_reader(credit, reward.weights.answer_values(score))
                values = torch.tensor([*own_values, 0.0], device=whole.device)[messages]  # -1 is the last place
                advantages[place] = (advantages[place] + weight * (values - shares[place])).masked_fill(
                    messages < 0, 0.0
                )
        share_of_rows = self.accelerator.gather(undivided.mean().to(whole.device)).mean().item()
        self._metrics["train" if self.model.training else "eval"]["credit/whole_rollouts"].append(share_of_rows)
        return advantages

    def _messages_of_tokens(self, batch: Mapping[str, Any], place: int, credit: Credit | str) -> Tensor | str:
        """Return the index of each token's message, ``(T,)``, or -1 without a message; else the reason for failure."""
        if isinstance(credit, str):
            return credit
        mask = batch["completion_mask"][place].bool()
        messages = messages_by_mask(mask & batch["tool_mask"][place].bool() if "tool_mask" in batch else mask)
        if bool(mask.any()) and int(messages.max()) + 1 != len(credit.calls):
            return "the completion's tokens do not show the policy's messages"
        return messages


def refuse_credit(weights: Sequence[RewardWeights], arguments: object) -> None:
    """Raise ``ValueError`` if settings of ``TurnCreditGRPOTrainer`` conflict with weights or TRL's arguments."""
    if not weights:
        raise ValueError("reward_funcs must contain a SePerReward, got none; add one, or use GRPOTrainer")
    if not all(reward_weights.answer_weight and reward_weights.gain_weight for reward_weights in weights):
        raise ValueError(
            "credit per turn needs answer_weight and gain_weight above 0, since it compares answers with the "
            f"reader's beliefs after each search, got {weights}"
        )
    wanted = {"scale_rewards": "none", "multi_objective_aggregation": "sum_then_normalize"}
    for name, value in wanted.items():
        if getattr(arguments, name) != value:
            raise ValueError(f"credit per turn needs {name}={value!r} in GRPOConfig, got {getattr(arguments, name)!r}")


def messages_by_mask(mask: Tensor) -> Tensor:
    """Return for each token the index of its run of true values, from 0; -1 for false values.

    ``mask`` is ``(T,)`` bool: whether the policy generated the token. TRL's tool results separate its messages.

    >>> messages_by_mask(torch.tensor([False, True, True, False, True])).tolist()
    [-1, 0, 0, -1, 1]
    """
    before = torch.nn.functional.pad(mask[:-1], (1, 0), value=False)
    return ((mask & ~before).cumsum(0) - 1).masked_fill(~mask, -1)


def _subtract_group_mean(rewards: Tensor, column: int, size: int) -> Tensor:
    """Return one function's rewards minus their group's mean, ``(N,)``, which is its part of TRL's advantages."""
    unscored = rewards.isnan().all(dim=1)
    values = rewards[:, column].nan_to_num(0.0).masked_fill(unscored, torch.nan).view(-1, size)
    return (values - values.nanmean(dim=1, keepdim=True)).flatten()
