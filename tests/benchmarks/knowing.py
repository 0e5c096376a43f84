"""How well do a policy, and the model that it is made from, know which questions need a search? (No timing.)

    python -m tests.benchmarks.knowing --policies runs/policy-demo/model runs/policy-demo-1/model

A question needs a search where the reader's SePer without one is below ``KNOWN``. Printed is the area under the ROC
curve (.5: chance, 1: perfect order), on the held-out questions of a policy's configuration, of what could order them:
the entropies of the reader's closed-book answers; a linear probe on the base's hidden state where the policy decides,
which is fitted to the training questions; and the probability that a policy begins with a call. The probe is what the
base knows at that place: policies that are far below it could learn more, policies that are level with it could not,
unless what the hidden state holds changes. Intervals (95 %) are bootstrapped over questions.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from scipy.stats import bootstrap
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from seper_reward.reader.loading import load_reader, load_tokenizer
from seper_reward.reward.chat_template import with_tool_template
from seper_reward.runtime.pretrained import LoadOptions
from seper_reward.types import KNOWN, Query
from tests.benchmarks.common import finish, parser
from trainers.policy_data import call_of, messages_of, read_policy_questions, row_of
from trainers.policy_task import PolicyTaskConfig, closed_book_beliefs, load_task_scorer, read_policy_task

ENTROPIES = ("entropy", "semantic_entropy")
DEPTHS = (1 / 3, 2 / 3, 1.0)  # of the layers that are probed
STRENGTHS = np.logspace(-5, 0, 6)  # of the probe's regularization, chosen by cross-validation
RESAMPLES = 2000


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--config", default="configs/policy/demo.yaml", help="configuration of the policies")
    made.add_argument("--policies", nargs="*", default=[], help="folders of policies: RUN/model")
    made.add_argument("--limit", type=int, help="questions of each split; not given: all")
    options = made.parse_args(arguments)
    task = replace(read_policy_task(options.config), limit=options.limit, eval_limit=options.limit)
    finish(measure(task, options.policies), options.json)


def measure(task: PolicyTaskConfig, policies: Sequence[str]) -> dict[str, Any]:
    loaded = load_reader(task.model, LoadOptions())
    scorer = load_task_scorer(task, Path("runs"), loaded)
    questions = read_policy_questions(task)
    queries = [*questions.train, *questions.test]
    beliefs = closed_book_beliefs(scorer, queries)
    asked = [(query, belief) for query, belief in zip(queries, beliefs, strict=True) if belief is not None]
    test = {query.id for query in questions.test}
    held_out = np.array([query.id in test for query, _ in asked])
    needed = np.array([belief.seper < KNOWN for _, belief in asked])
    prompts, call = decisions(task, [query for query, _ in asked], scorer.reader.prompts.style)
    scores = {name: np.array([getattr(belief, name) for _, belief in asked]) for name in ENTROPIES}
    for layer, states in hidden_states(loaded.model, prompts).items():
        probe = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=STRENGTHS, scoring="roc_auc", max_iter=2000))
        probe.fit(states[~held_out], needed[~held_out])
        scores[f"probe of layer {layer}"] = probe.decision_function(states)
    for folder in policies:
        policy = PeftModel.from_pretrained(loaded.model, folder).eval()
        scores[folder] = np.array([call_probability(policy, ids, call) for ids in prompts])
        policy.unload()
    return {
        "questions": {"train": int((~held_out).sum()), "held out": int(held_out.sum())},
        "needed": round(float(needed[held_out].mean()), 3),
        "auc": {name: auc(needed[held_out], score[held_out]) for name, score in scores.items()},
    }


def decisions(task: PolicyTaskConfig, queries: Sequence[Query], style: Any) -> tuple[list[torch.Tensor], int]:
    """Return what a policy is asked, tokens ``(1, T)`` up to its decision, and the token that a call begins with."""
    tokenizer = with_tool_template(load_tokenizer(task.model))
    rows = [row_of(tokenizer, messages_of(query.question, style), call_of("?"), "search") for query in queries]
    prompts = [tokenizer(row["prompt"], add_special_tokens=False, return_tensors="pt").input_ids for row in rows]
    return prompts, tokenizer(rows[0]["completion"], add_special_tokens=False).input_ids[0]


@torch.inference_mode()
def hidden_states(model: Any, prompts: Sequence[torch.Tensor]) -> dict[int, np.ndarray]:
    """Return the hidden states of the last token, ``(N, H)``, by layer."""
    layers = [round(depth * model.config.num_hidden_layers) for depth in DEPTHS]
    found = []
    for ids in prompts:
        states = model(input_ids=ids, output_hidden_states=True, logits_to_keep=1).hidden_states
        found.append(torch.stack([states[layer][0, -1].float() for layer in layers]))
    return {layer: states.numpy() for layer, states in zip(layers, torch.stack(found, dim=1), strict=True)}


@torch.inference_mode()
def call_probability(policy: Any, ids: torch.Tensor, call: int) -> float:
    return policy(input_ids=ids, logits_to_keep=1).logits[0, -1].float().softmax(-1)[call].item()


def auc(needed: np.ndarray, score: np.ndarray) -> dict[str, Any]:
    drawn = bootstrap(
        (needed, score), roc_auc_score, paired=True, vectorized=False, n_resamples=RESAMPLES, method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return {
        "mean": round(float(roc_auc_score(needed, score)), 3),
        "interval": [round(float(end), 3) for end in drawn],
    }


if __name__ == "__main__":
    main()
