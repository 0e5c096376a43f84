"""Other entailment models and prompts against scorers that have them, and the whole command."""

import json

import numpy as np
import pytest

from seper_reward import SePerScorer
from seper_reward.data.queries import as_query
from seper_reward.evaluate.similarity import load_similarity
from seper_reward.judge.judge import Judge
from seper_reward.reader.prompts import STYLES
from seper_reward.types import Pair
from tests.benchmarks.experiments.robustness import SimilarityKernel, main, robustness
from tests.helpers import evaluation_arguments as arguments

RECORDS = [
    {
        "id": f"q{n}",
        "question": f"Who owns house {n}?",
        "answers": ["Ann", "Bob"],
        "passages": [{"id": str(p), "text": f"House {n}: {p}", "relevant": p == 1} for p in range(3)],
    }
    for n in range(3)
]
QUERIES = [as_query(record) for record in RECORDS]
MARKS = [float(passage.metadata["relevant"]) for query in QUERIES for passage in query.passages]


def gains(scorer, kind="delta_seper"):
    return [getattr(judged, kind) for row in scorer.utilities(QUERIES) for judged in row]


@pytest.fixture(scope="module")
def overlap():
    return SimilarityKernel("token_f1", load_similarity("token_f1"))


@pytest.mark.slow
def test_each_row_is_what_a_scorer_of_its_own_would_measure(tiny_scorer, tiny_sampler, tiny_judge, overlap):
    found = robustness(
        tiny_scorer,
        QUERIES,
        {"same": lambda: tiny_judge, "token_f1": lambda: overlap},
        {"brief": STYLES["brief"], "paper": STYLES["paper"]},
    )
    judged_otherwise = SePerScorer(tiny_sampler, tiny_judge, prompt="brief")
    judged_otherwise.judge = Judge(overlap)
    scorers = {"token_f1": judged_otherwise, "paper": SePerScorer(tiny_sampler, tiny_judge, prompt="paper")}
    reference = gains(tiny_scorer)
    for row, scorer in (
        (found.reference, tiny_scorer),
        (found.entailment["token_f1"], scorers["token_f1"]),
        (found.prompt["paper"], scorers["paper"]),
    ):
        assert row["soft"]["pearson"] == pytest.approx(np.corrcoef(gains(scorer), MARKS)[0, 1], abs=1e-3)
        hard = np.corrcoef(gains(scorer, "delta_seper_hard"), MARKS)[0, 1]
        assert row["hard"]["pearson"] == (None if np.isnan(hard) else pytest.approx(hard, abs=1e-3))
        assert row["with_reference"]["pearson"] == pytest.approx(np.corrcoef(gains(scorer), reference)[0, 1], abs=1e-3)
        baselines = [row[0].baseline_seper for row in scorer.utilities(QUERIES)]
        assert row["baseline_seper"] == pytest.approx(np.mean(baselines), abs=1e-3)
    assert found.pairwise["token_f1"]["same"] == found.entailment["token_f1"]["with_reference"]
    between = np.corrcoef(reference, gains(judged_otherwise))[0, 1]
    assert found.pairwise["same"]["token_f1"]["pearson"] == pytest.approx(between, abs=1e-3)
    assert found.pairwise["token_f1"]["token_f1"]["pearson"] == 1.0
    assert found.entailment["same"] == found.prompt["brief"] == found.reference
    assert found.reference["with_reference"]["pearson"] == 1.0
    assert (found.n, found.questions, found.left_out) == (9, 3, 0)


def test_a_question_too_long_for_one_prompt_is_left_out_of_all(tiny_scorer, capsys):
    room = 512 - 8 - 20  # tokens of the window, of a response, and of the brief prompt
    long = as_query({**RECORDS[0], "id": "long", "question": "Who? " * (room // 2)})
    found = robustness(tiny_scorer, [QUERIES[0], long], {}, {"few_shot": STYLES["few_shot"]})
    assert (found.questions, found.left_out) == (1, 1)
    assert "question id='long' is left out" in capsys.readouterr().err


def test_the_command(tiny_reader, tiny_entailment, tmp_path, capsys):
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    words = ["--judges", str(tiny_entailment), "lexical", "--prompts", "paper"]
    words += ["--plot", str(tmp_path / "plot.svg"), "--passages_per_question", "2"]
    words += arguments(tiny_reader, tiny_entailment, tmp_path / "qa.jsonl", tmp_path / "out.json")
    assert main(words) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["n"] == 6
    assert result["entailment"][str(tiny_entailment)] == result["reference"]
    assert set(result["entailment"]) == {str(tiny_entailment), "lexical"}
    out = capsys.readouterr().out
    assert "| entailment: lexical" in out
    assert "| prompt: paper" in out
    assert (tmp_path / "plot.svg").stat().st_size > 1000


def test_a_prompt_that_does_not_exist_is_named_before_anything_is_loaded(capsys):
    assert main(["--file", "demo", "--prompts", "long"]) == 2
    assert "prompt must be one of paper, brief, few_shot, got 'long'" in capsys.readouterr().err


def test_a_kernel_judges_like_an_entailment_model():
    kernel = SimilarityKernel("lexical", load_similarity("lexical"))
    texts = [("It is Paris", "Paris"), ("Paris", "It is Paris"), ("", " "), ("a", "")]
    assert kernel.probs([Pair("Q?", *pair) for pair in texts]).tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]]
    assert kernel.probs([]).shape == (0, 3)
    half = SimilarityKernel("token_f1", load_similarity("token_f1")).probs([Pair("", "Ann Ray", "Ann Lee")])
    assert half.tolist() == [[0.5, 0.5, 0.0]]
    clipped = SimilarityKernel("odd", lambda pairs: [-0.25] * len(pairs)).probs([Pair("", "a", "b")])
    assert clipped.tolist() == [[0, 1, 0]]
