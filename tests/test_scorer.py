"""SePerScorer against a slow loop over its parts, and what the definition promises."""

import itertools
import re
from dataclasses import replace

import pytest

import seper_reward.scorer as scorers
from seper_reward import Estimator, Passage, SePerScorer
from seper_reward.data.rows import BadRowError
from seper_reward.options import ScorerOptions
from seper_reward.scorer import MOST_ANSWERS
from seper_reward.types import Asked, Pair
from tests.helpers import ScriptedModel, asking, rebuilt

RECORD = {
    "question": "Who built the mill?",
    "answers": ["Peter Voss", "Voss"],
    "passages": [
        "Peter Voss built the mill.",
        "The mill burned down.",
        {"id": "x", "title": "Lies", "text": "Ann did."},
    ],
}


def scorer_like(scorer, **changes):
    parts = {"prompt": "brief", "estimator": scorer.estimator, **changes}
    return SePerScorer(scorer.sampler, scorer.entailment, **parts)


def slow_belief(scorer, question, answers, passages):
    """Eq. 7-10 as nested loops, one pair at a time, for equal weights and mean over aliases."""
    responses = scorer.sampler.sample(asking([scorer.reader.prompts.build(question, passages)]))[0].texts

    def entails(*texts):
        pair = Pair(question, *texts)
        return scorer.judge.probs([pair])[pair]

    soft = sum(entails(r, a) for r in responses for a in answers) / len(responses) / len(answers)
    clusters: list[list[str]] = []
    for response in responses:
        linked = [
            cluster
            for cluster in clusters
            if any(entails(response, other) >= 0.5 and entails(other, response) >= 0.5 for other in cluster)
        ]
        merged = [response, *itertools.chain(*linked)]
        clusters = [cluster for cluster in clusters if cluster not in linked] + [merged]
    hard = 0.0
    for answer in answers:
        for cluster in clusters:
            if sum(entails(member, answer) for member in cluster) / len(cluster) >= 0.5:
                hard += len(cluster) / len(responses) / len(answers)
    return soft, hard


@pytest.mark.parametrize(
    "question", [RECORD["question"], "What is the capital of France?", "How many legs has a cat?"]
)
def test_against_a_slow_loop(tiny_scorer, question):
    scorer = scorer_like(tiny_scorer, estimator=Estimator(weighting="uniform", aliases="mean"))
    sets = [(), (Passage("Peter Voss built the mill."),), (Passage("a"), Passage("b"))]
    for belief, passages in zip(scorer.beliefs(question, RECORD["answers"], sets), sets, strict=True):
        soft, hard = slow_belief(tiny_scorer, question, RECORD["answers"], passages)
        assert belief.seper == pytest.approx(soft, abs=1e-5)
        assert belief.seper_hard == pytest.approx(hard, abs=1e-5)
        assert len(belief.responses) == len(belief.weights) == len(belief.cluster_ids) == len(belief.support) == 4


def test_utilities_of_a_plain_dict(tiny_scorer):
    (utilities,) = tiny_scorer.utilities([RECORD])
    assert [judged.passage_id for judged in utilities] == ["0", "1", "x"]
    for judged in utilities:
        assert judged.delta_seper == pytest.approx(judged.seper - judged.baseline_seper)
        assert judged.baseline is utilities[0].baseline
        assert judged.std_error >= judged.baseline.std_error


@pytest.mark.parametrize("preset", ["default", "paper", "official"])
def test_alias_and_passage_order_do_not_matter(tiny_scorer, preset):
    scorer = scorer_like(tiny_scorer, estimator=Estimator.preset(preset))
    turned = {**RECORD, "answers": RECORD["answers"][::-1], "passages": RECORD["passages"][::-1]}
    (before,), (after,) = scorer.utilities([RECORD]), scorer.utilities([turned])
    for one, other in zip(before, after[::-1], strict=True):
        assert one.delta_seper == pytest.approx(other.delta_seper, abs=1e-6)
        assert one.delta_seper_hard == pytest.approx(other.delta_seper_hard, abs=1e-6)


def test_a_cache_is_named_by_its_path(tiny_scorer, tmp_path):
    path = tmp_path / "sub" / "cache.sqlite"
    scorer = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", cache=str(path))
    expected = scorer.utilities([RECORD])
    assert scorer.cache.misses > 0
    again = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", cache=path)
    assert again.utilities([RECORD]) == expected
    assert again.cache.misses == 0
    # before the models, which are slow to load, and of which there is none of this name
    with pytest.raises(ValueError, match="cache must be str or nothing, got 3"):
        SePerScorer.from_pretrained("nowhere/none", cache=3)


@pytest.mark.parametrize("text", ["word " * 20_000, "🙂 שלום " * 200, "{question} {reference}"])
def test_odd_passages_are_scored(tiny_scorer, text):
    (utilities,) = tiny_scorer.utilities([{**RECORD, "passages": [text]}])
    assert -1 <= utilities[0].delta_seper <= 1


def test_another_seed_draws_other_responses_from_the_same_models(tiny_scorer):
    other = tiny_scorer.with_sampling(seed=7)
    fresh = SePerScorer(rebuilt(tiny_scorer.sampler, seed=7), tiny_scorer.entailment, prompt="brief")
    assert other.utilities([RECORD]) == fresh.utilities([RECORD]) != tiny_scorer.utilities([RECORD])
    own = tiny_scorer.sampler.options.seed
    assert (tiny_scorer.fingerprint["sampling"]["seed"], other.fingerprint["sampling"]["seed"]) == (own, 7)
    assert other.with_sampling(seed=own).fingerprint == tiny_scorer.fingerprint


def test_the_embedded_models_judge_a_plain_case(embedded_scorer):
    record = {
        "question": "What colour is the door of the mill in Hallow?",
        "answers": ["green"],
        "passages": [
            "The door of the mill in Hallow is green.",
            "The mill in Hallow has a large door.",
            "The door of the mill in Hallow is purple.",
        ],
    }
    supporting, unrelated, misleading = embedded_scorer.utilities([record])[0]
    assert supporting.delta_seper > 0.4
    assert supporting.delta_seper > unrelated.delta_seper > misleading.delta_seper - 0.05


def test_the_name_of_a_model_belongs_to_the_servers_of_the_engine(monkeypatch):
    def place(options, **changes):
        return [{**vars(options), **changes}[name] for name in ("reader", "engine")]

    monkeypatch.setattr(SePerScorer, "from_pretrained", place)
    settings = ScorerOptions(reader="mine", engine=["served@http://one/v1"])
    assert scorers.load_scorers(settings, []) == {"mine": ["mine", ["served@http://one/v1"]]}
    found = scorers.load_scorers(settings, ["a@http://two/v1", "b"])
    assert list(found.values()) == [["a", ["http://two/v1"]], ["b", []]]
    with pytest.raises(ValueError, match="readers must have the tokenizer in front of the address, TOKENIZER@URL"):
        scorers.load_scorers(settings, ["http://two/v1"])


def test_a_name_may_have_a_revision_and_keywords_are_options(tiny_reader, tiny_entailment):
    options = ScorerOptions(reader=f"{tiny_reader}@main", judge=f"{tiny_entailment}@main", num_samples=4)
    official = Estimator.preset("official", aliases="any")
    scorer = SePerScorer.from_pretrained(options, temperature=0.5, estimator=official)
    assert scorer.sampler.name == f"{tiny_reader}@main"
    assert scorer.entailment.name == f"{tiny_entailment}@main"
    sampling = scorer.fingerprint["sampling"]
    assert (sampling["num_samples"], sampling["temperature"], sampling["max_new_tokens"]) == (4, 0.5, 32)
    assert scorer.estimator == official


def test_a_wrong_argument_is_named_with_its_place(tiny_scorer):
    for given, hint in {
        "readr": "has no argument 'readr'; did you mean 'reader'",
        "num_sample": "did you mean 'num_samples'",
    }.items():
        with pytest.raises(TypeError, match=re.escape(hint)):
            SePerScorer.from_pretrained(**{given: 1})
    with pytest.raises(TypeError, match=re.escape("write utilities([record])")):
        tiny_scorer.utilities({"question": "Who?", "answers": ["Ida"], "passages": ["Ida."]})
    with pytest.raises(BadRowError, match=re.escape("passages[1] is empty, and there is a result for each passage")):
        tiny_scorer.utilities([{"question": "Who?", "answers": ["Ida"], "passages": ["Ida.", " ", None]}])
    for sets in (["Ida."], [Passage("Ida.")], [("Ida.",)]):
        with pytest.raises(
            TypeError, match=re.escape("passage_sets must be lists of Passage, such as [[], [Passage(")
        ):
            tiny_scorer.beliefs("Who?", ["Ida"], sets)


def test_of_too_many_aliases_the_likeliest_are_known_and_equal_texts_still_match(tiny_sampler):
    names = [f"name {number}" for number in range(40)]
    model = ScriptedModel(lambda pair: 0.0)
    scorer = SePerScorer(tiny_sampler, model, prompt="brief")
    asked = Asked("Who?", (*names, names[0], ""), ((), (Passage("Ann did."),)), texts=("**Name 39.**", "name 99"))
    known = scorer.known_answers(asked)
    ((log_probs,),) = scorer.reader.answer_log_probs([replace(asked, contexts=((),))], [names])
    assert len(known) == MOST_ANSWERS == 32
    assert min(log_probs[names.index(name)] for name in known) >= sorted(log_probs)[40 - 32]
    unlikely = [name for name in names if name not in known]
    (found,) = scorer.measure([replace(asked, texts=(*unlikely[:2], "name 99"))])
    assert found.supports == (1.0, 1.0, 0.0)
    assert {len(belief.sampled.known_leaves) for belief in found.beliefs} == {32}
    judged = {pair.hypothesis for batch in model.asked for pair in batch} & set(unlikely)
    assert judged <= set(unlikely[:2])
    every = SePerScorer(tiny_sampler, model, prompt="brief", estimator=Estimator(aliases="mean"))
    (whole,) = every.measure([asked])
    assert {len(row) for belief in whole.beliefs for row in belief.support} == {42}


def test_a_judge_that_is_nowhere_is_named(tiny_reader):
    with pytest.raises(OSError, match="judge='no/such-model' could not be loaded"):
        SePerScorer.from_pretrained(reader=str(tiny_reader), judge="no/such-model")
