"""Correlation with relevance marks and planted answers, as functions and as commands."""

import copy
import json
import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import pearsonr

from seper_reward import SePerScorer
from seper_reward.baselines.correlation import choose_passages, contexts_of, correlation, unknown_to
from seper_reward.cli import main
from seper_reward.judge.judge import Judge
from seper_reward.types import Passage, Query, Responses
from tests.helpers import ScriptedModel, ScriptedSampler, as_query, write_rows
from tests.helpers import evaluation_arguments as arguments

RECORD = {
    "question": "Who?",
    "answers": ["Ann"],
    "passages": [{"id": str(n), "text": f"text {n}", "relevant": n in (1, 3)} for n in range(5)],
}
ONE_RELEVANT = [{"id": str(n), "text": f"text {n}", "relevant": n == 2} for n in range(4)]


def records_of(count):
    return [{**RECORD, "id": f"q{n}", "question": f"Who {n}?", "passages": ONE_RELEVANT} for n in range(count)]


def test_choose_passages_keeps_relevant_ones_first():
    assert [p.id for p in choose_passages(as_query(RECORD), 3).passages] == ["0", "1", "3"]
    with pytest.raises(ValueError, match="has 2 relevant passages, more than 1"):
        choose_passages(as_query(RECORD), 1)
    assert [p.id for p in choose_passages(as_query(RECORD), 9).passages] == list("01234")


def test_contexts_of_several_relevant_passages():
    contexts = contexts_of(as_query(RECORD))
    assert [context.relevance for context in contexts] == [0, 0.5, 0, 0.5, 0, 1]
    assert [passage.id for passage in contexts[-1].passages] == ["1", "3"]
    assert [c.relevance for c in contexts_of(as_query({**RECORD, "passages": ONE_RELEVANT}))] == [0, 0, 1, 0]


def test_correlation_command_agrees_with_scipy(tiny_reader, tiny_entailment, tiny_scorer, tmp_path, capsys):
    records = records_of(4)
    path = write_rows(tmp_path / "qa.jsonl", records)
    words = arguments(tiny_reader, tiny_entailment, path, tmp_path / "out.json")
    assert main(["baseline", "correlation", "--limit", "3", "--passages_per_question", "3", *words]) == 0
    result = json.loads((tmp_path / "out.json").read_text())["files"]["qa"]
    queries = [choose_passages(as_query(record), 3) for record in records[:3]]
    utilities = [judged for row in tiny_scorer.utilities(queries) for judged in row]
    marks = [passage.metadata["relevant"] for query in queries for passage in query.passages]
    columns = {
        "delta_seper_soft": lambda effect: effect.delta_seper,
        "delta_seper_hard": lambda effect: effect.delta_seper_hard,
        "delta_belief": lambda effect: effect.delta_belief.value,
        "question_gain": lambda effect: effect.question_gain,
        "predictive_entropy": lambda effect: effect.baseline.entropy - effect.belief.entropy,
        "semantic_entropy": lambda effect: effect.baseline.semantic_entropy - effect.belief.semantic_entropy,
    }
    for name, column in columns.items():
        values = list(map(column, utilities))
        found = result["pearson"][name]
        assert found["value"] == pytest.approx(pearsonr(values, marks).statistic, abs=1e-3)
        assert result["p_value"][name] == pytest.approx(pearsonr(values, marks).pvalue, abs=1e-2)
        assert found["interval"][0] <= found["value"] <= found["interval"][1]
    rivals = {"exact_match", "bleu", "rouge_l", "bert_score", "answer_log_prob", "answer_perplexity"}
    assert rivals | {"response_perplexity", "contains", "question_words"} == set(result["pearson"]) - set(columns)
    assert result["n"] == 9
    assert result["contexts"]["bleu"] == 9
    table = capsys.readouterr().out
    assert "| **delta_seper_soft** " in table
    assert "qa (n=9)" in table


def saying(scorer, said, tokens, weights):
    """Return a scorer whose responses are those of ``said``, by ids of passages, of one token each.

    It is a copy: older pytest leaves the method of a patched object in the object, which its own copies then share.
    """
    other, real = copy.copy(scorer), scorer.measure

    def measure(asked, batch_size):
        (found,) = real(asked, batch_size)
        keys = [tuple(passage.id for passage in shown) for shown in asked[0].contexts]
        rows = [
            Responses(said.get(key, said[()]), tuple(torch.tensor([math.log(p)]) for p in tokens.get(key, tokens[()])))
            for key in keys
        ]
        counts = (1,) * len(weights)
        beliefs = [
            replace(b, sampled=row, weights=weights, counts=counts) for b, row in zip(found.beliefs, rows, strict=True)
        ]
        return [replace(found, beliefs=tuple(beliefs))]

    other.measure = measure
    return other


def test_correlation_of_rivals_by_hand(tiny_scorer):
    """Responses are given; what follows from them alone is computed by hand."""
    query = as_query({**RECORD, "answers": ["Ann Lee"], "passages": ONE_RELEVANT})
    said = {(): ("Bob", "Bob", "Bob", "Ann Lee"), ("2",): ("ann lee.", "Ann Lee", "Ann Ray", "Ann Lee")}
    tokens = {(): [1 / 4] * 4, ("2",): [1 / 2, 1 / 8, 1 / 2, 1 / 2]}  # probability of the one token of each
    scorer = saying(tiny_scorer, said, tokens, weights=(0.25,) * 4)
    judge = Judge(ScriptedModel(lambda pair: {"Bob": 0.49, "Ann Ray": 0.5}[pair.premise]))
    result = correlation(scorer, [query], judge=judge)
    assert result.mean["exact_match"] == {"0": 0.0, "1": 0.5}  # 3 of 4 less 1 of 4
    # ROUGE-L of "Ann Ray" is 1/2, so 3.5 of 4 less 1 of 4
    assert result.mean["rouge_l"]["1"] == pytest.approx(0.625)
    assert result.pearson["exact_match"].value == 1.0
    # BLEU of "ann lee." has 2 of 3 words, 1 of 2 pairs and half of a triple; of "Ann Ray" 1 of 2, and half a pair
    assert result.mean["bleu"]["1"] == pytest.approx((6 ** (-1 / 3) + 2 + 0.5) / 4 - 0.25, abs=1e-4)
    assert result.mean["bert_score"]["0"] == 0
    assert 0.5 < result.mean["bert_score"]["1"] < 0.75
    assert result.mean["llm_judge"] == {"0": 0.0, "1": 0.75}  # 4 of 4 less 1 of 4
    # perplexity 4 of each token, and then the geometric mean of 2, 8, 2 and 2; less is better
    assert result.mean["response_perplexity"]["1"] == pytest.approx(4 - 64**0.25, abs=1e-4)
    assert result.mean["answer_perplexity"].keys() == {"0", "1"}


def test_unknown_to_leaves_out_what_the_reader_answers(tiny_sampler, tiny_judge):
    queries = [Query(f"q{n}", f"Who is {n}?", ("Ann",), (Passage("Ann"),)) for n in range(3)]

    def reply(prompt):
        return "ann." if "is 1" in prompt else "Bob"

    scorer = SePerScorer(ScriptedSampler(tiny_sampler.tokenizer, reply), tiny_judge, prompt="brief")
    assert [query.id for query in unknown_to(scorer, queries)] == ["q0", "q2"]
    assert scorer.sampler.asked == [[scorer.reader.prompts.build(query.question, ())] for query in queries]
    with pytest.raises(ValueError, match="answers all of 1 question without passages"):
        unknown_to(scorer, queries[1:2])


def test_correlation_leaves_out_long_questions(tiny_scorer, capsys):
    fine = as_query({**RECORD, "id": "fine", "passages": ONE_RELEVANT})
    long = as_query({**RECORD, "id": "long", "question": "Who? " * 500, "passages": ONE_RELEVANT})
    result = correlation(tiny_scorer, [long, fine])
    assert (result.questions, result.left_out, result.n) == (1, 1, 4)
    told = capsys.readouterr()
    assert "question id='long' is left out" in told.err
    assert not told.out  # where tables are
    with pytest.raises(ValueError, match="can be asked none of 1 question"):
        correlation(tiny_scorer, [long])


@pytest.mark.parametrize(
    ("passages", "message"),
    [(["text"], "expected 'relevant'"), ([{"text": "a", "relevant": True}], "relevant and not relevant")],
)
def test_correlation_names_missing_marks(tiny_scorer, passages, message):
    with pytest.raises(ValueError, match=message):
        correlation(tiny_scorer, [as_query({**RECORD, "passages": passages})])
