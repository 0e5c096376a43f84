"""The texts that a judge is measured on: right and wrong ones, apart from training data; and the shipped judge."""

import statistics

import pytest

from seper_reward.data.answers import normalize_answer
from seper_reward.data.demo import QUESTIONS
from seper_reward.data.rows import read_valid_rows
from seper_reward.evaluate.judge import best_alias_probs, read_verdicts
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.judge.judge import Judge
from seper_reward.options import ModelOptions
from tests.benchmarks.adapters.entailment_data import common_facts
from tests.benchmarks.judge import EQUIVALENCE, WORDINGS
from tests.benchmarks.judge.texts import texts


def test_wordings_are_right_and_apart_from_wrong_answers():
    for _, fact in read_valid_rows(WORDINGS):
        right = [text for own in fact["right"].values() for text in own]
        assert len(set(right)) == len(right)
        assert fact["answers"][0] not in right
        assert set(fact["others"]).isdisjoint([*fact["answers"], *right])
    rows = list(texts())
    assert {row["kind"] for row in rows if not row["equivalent"]} == {"guesses", "qualifiers"}
    assert len({(row["question"], row["response"], row["equivalent"]) for row in rows}) > 0.99 * len(rows)


def test_our_texts_are_apart_from_what_is_trained_on(shared_data):
    own = [fact["question"] for _, fact in read_valid_rows(WORDINGS)]
    own += [row.question for row in read_verdicts(EQUIVALENCE)]
    trained = [row.question for row in read_verdicts(shared_data / "evouna" / "NQ.json.gz")]
    trained += [row["question"] for _, row in read_valid_rows(QUESTIONS)]
    trained += [fact["question"] for fact in common_facts()]
    assert set(map(normalize_answer, own)).isdisjoint(map(normalize_answer, trained))


@pytest.fixture(scope="module")
def supported():
    verdicts = read_verdicts(EQUIVALENCE, column_by="kind")
    judge = Judge(EntailmentScorer.from_pretrained(options=ModelOptions(device="cpu")))
    probs = best_alias_probs(judge, verdicts)[:, 0].tolist()
    return list(zip(probs, verdicts, strict=True))


def _support_of(supported, kind):
    return [prob for prob, verdict in supported if verdict.column == kind]


weaker = pytest.mark.xfail(reason="the multilingual judge gives lists more support on average", strict=True)
TRAPS = [
    ("unrelated", 0.06),
    ("echo", 0.16),
    ("gibberish", 0.03),
    pytest.param("shotgun", 0.1, marks=weaker),
    ("not_gold", 0.25),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "most"), TRAPS)
def test_the_embedded_judge_sees_through_traps(supported, kind, most):
    assert statistics.fmean(_support_of(supported, kind)) <= most


@pytest.mark.slow
def test_the_embedded_judge_passes_few_traps_and_polite_answers(supported):
    most = {"unrelated": 0.02, "echo": 0.02, "gibberish": 0.02, "shotgun": 0.2, "not_gold": 0.25}
    for kind, limit in most.items():
        assert statistics.fmean(prob > 0.5 for prob in _support_of(supported, kind)) <= limit
    polite = [
        prob for prob, verdict in supported if verdict.column in ("politeness", "question_mark") and verdict.equivalent
    ]
    assert statistics.fmean(polite) >= 0.95
