"""The preset ``official`` against the official code, sepermetric/seper, whose reshaping of aliases is put right."""

import functools
import itertools
import math
import random

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from seper_reward import Estimator, SePerScorer
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.judge.judge import Judge
from seper_reward.runtime.cache import Cache
from seper_reward.scorer import beliefs_of
from seper_reward.types import Responses
from tests.helpers import ScriptedModel

OFFICIAL = Estimator.preset("official")
QUESTION = "who runs the mill"
ENTAILS, NEUTRAL, CONTRADICTS = (0.8, 0.15, 0.05), (0.2, 0.7, 0.1), (0.1, 0.2, 0.7)


def believed(options, sampled, answers, probs):
    judge = Judge(ScriptedModel(lambda pair: probs[pair[1:]]))
    (belief,) = beliefs_of(judge, options, [(QUESTION, answers, sampled)])
    return belief


def official(sampled, answers, probs):
    """Soft and hard SePer by loops over numbers, from a reading of calculate.py and semantic_entropy.py at HEAD."""
    texts = sampled.texts
    count = len(texts)

    def verdict(premise, hypothesis):
        classes = probs[premise, hypothesis]
        return ("entails", "neutral", "contradicts")[classes.index(max(classes))]

    likelihoods = []
    for log_probs, ended in zip(sampled.token_log_probs, sampled.finished, strict=True):
        numbers = log_probs.tolist()
        if ended and len(numbers) > 1:
            numbers.pop()
        likelihoods.append(math.exp(sum(numbers) / len(numbers)))
    weights = [likelihood / sum(likelihoods) for likelihood in likelihoods]

    soft = 0.0
    for answer in answers:
        mass = 0.0
        for weight, text in zip(weights, texts, strict=True):
            mass += weight * max(probs[text, answer][0], probs[answer, text][0])
        soft = max(soft, mass)

    opened_by = [-1] * count
    for one in range(count):
        if opened_by[one] == -1:
            opened_by[one] = one
            for other in range(one + 1, count):
                both = {verdict(texts[one], texts[other]), verdict(texts[other], texts[one])}
                if both == {"entails"}:
                    opened_by[other] = one

    hard = 0.0
    for weight, first in zip(weights, opened_by, strict=True):
        for answer in answers:
            both = {verdict(texts[first], answer), verdict(answer, texts[first])}
            if "contradicts" not in both and both != {"neutral"}:
                hard += weight
                break
    return soft, hard


def random_context(rng):
    """Draw responses with repeats and empty ones, aliases that may equal responses or each other, and all verdicts."""
    pool = ["", "Ida Voss", "Ida Voss.", '"Ida"', "Ida", "the Voss family", "nobody", "I do not know"]
    pool = rng.sample(pool, rng.randint(3, len(pool)))
    texts = tuple(rng.choices(pool, k=rng.randint(1, 10)))
    answers = rng.choices([text for text in pool if text] + ["Voss", "I. Voss"], k=rng.randint(1, 4))
    lean = rng.uniform(0, 2.5)  # from few to many entailments
    probs = {}
    for pair in itertools.product(sorted({*texts, *answers}), repeat=2):
        odds = [math.exp(rng.gauss(mean, 1.5)) for mean in (lean, 0, 0)]
        probs[pair] = tuple(each / sum(odds) for each in odds)
    lengths = [1 if not text else rng.randint(1, 6) for text in texts]
    sampled = Responses(
        texts,
        tuple(torch.tensor([-rng.expovariate(0.7) for _ in range(length)]) for length in lengths),
        finished=tuple(rng.random() < 0.8 for _ in texts),
    )
    return sampled, answers, probs


@functools.cache
def contexts(count):
    return [random_context(random.Random(seed)) for seed in range(count)]


def test_preset_official_against_the_official_code():
    for sampled, answers, probs in contexts(600):
        belief = believed(OFFICIAL, sampled, answers, probs)
        assert (belief.seper, belief.seper_hard) == pytest.approx(official(sampled, answers, probs), abs=1e-6)


def responses(*weighted, ended=True):
    """Return responses of one token, with the given probabilities."""
    texts, probs = zip(*weighted, strict=True)
    return Responses(texts, tuple(torch.tensor([prob]).log() for prob in probs), finished=(ended,) * len(texts))


def test_two_responses_for_two_aliases_by_hand():
    def entails(prob):
        return (prob, 0.0, 1 - prob) if prob < 0.5 else (prob, 1 - prob, 0.0)

    forward = {("r1", "A"): 0.9, ("r1", "B"): 0.1, ("r2", "A"): 0.2, ("r2", "B"): 0.8}
    probs = {pair: entails(prob) for pair, prob in forward.items()}
    probs |= {(answer, response): entails(prob) for (response, answer), prob in forward.items()}
    probs |= dict.fromkeys(itertools.product(("r1", "r2"), repeat=2), NEUTRAL)
    sampled = responses(("r1", 0.6), ("r2", 0.4))
    found = believed(OFFICIAL, sampled, ["A", "B"], probs)
    assert found.seper == pytest.approx(0.62)  # A: .6 * .9 + .4 * .2; as shipped, the official code reads .58
    assert found.seper_hard == pytest.approx(1.0)  # r1 is A, r2 is B
    by_alias = believed(Estimator.preset("official", hard_aliases="max"), sampled, ["A", "B"], probs)
    assert by_alias.seper_hard == pytest.approx(0.6)
    assert believed(Estimator.preset("official", aliases="any"), sampled, ["A", "B"], probs).seper == pytest.approx(
        0.6 * 0.9 + 0.4 * 0.8
    )


def test_the_rule_reads_both_directions_whatever_the_kernel():
    probs = {("SIJ", "joint"): ENTAILS, ("joint", "SIJ"): CONTRADICTS, ("SIJ", "SIJ"): ENTAILS}
    options = Estimator(kernel="forward", match="no_contradiction")
    found = believed(options, responses(("SIJ", 0.5)), ["joint"], probs)
    assert (found.seper, found.seper_hard) == (pytest.approx(0.8), 0.0)


@pytest.mark.parametrize(("backward", "hard"), [(0.49, 0.0), (0.5, 1.0)])
def test_the_papers_hard_seper_needs_entailment_both_ways(backward, hard):
    """Definition 2 and eq. 8; soft SePer reads the forward direction (eq. 9)."""
    longer, gold = "Rabaul, East New Britain", "Rabaul"
    probs = {(longer, gold): (0.98, 0.01, 0.01), (gold, longer): (backward, 0.4, 0.1), (longer, longer): ENTAILS}
    found = believed(Estimator.preset("paper"), responses((longer, 0.5)), [gold], probs)
    assert (found.seper, found.seper_hard) == (pytest.approx(0.98), hard)


def test_an_entailment_model_of_two_classes_is_refused_at_once(tiny_sampler):
    model = ScriptedModel(lambda pair: 0.5)
    model.classes = 2
    with pytest.raises(ValueError, match="neutral and contradiction, got one with 2 classes; use match="):
        SePerScorer(tiny_sampler, model, estimator=OFFICIAL)
    SePerScorer(tiny_sampler, model, estimator=Estimator.preset("official", match="threshold"))


class Recorder:
    """A tokenizer that notes the pairs of texts it is given; a fast one gets each text once."""

    is_fast = False

    def __init__(self, tokenizer):
        self._tokenizer, self.pairs = tokenizer, set()

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def __call__(self, texts, others=None, **options):
        if others is not None:
            self.pairs |= set(zip(texts, others, strict=True))
        return self._tokenizer(texts, others, **options)


@pytest.fixture(scope="module")
def nli(tiny_entailment):
    """Return the tiny entailment model and its tokenizer."""
    model = AutoModelForSequenceClassification.from_pretrained(tiny_entailment).eval()
    return model, AutoTokenizer.from_pretrained(tiny_entailment)


def judged(nli, options, question, texts, answers, cache=None):
    """Return the belief of the tiny entailment model, and the pairs that it read."""
    recorder = Recorder(nli[1])
    judge = Judge(EntailmentScorer(nli[0], recorder), cache)
    sampled = Responses(texts, tuple(torch.tensor([-1.0, -2.0]) for _ in texts), finished=(True,) * len(texts))
    (belief,) = beliefs_of(judge, options, [(question, answers, sampled)])
    return belief, recorder.pairs


@pytest.mark.parametrize(("question", "shown"), [("who? me", "who? me?"), ("who runs it?", "who runs it?")])
def test_the_entailment_model_reads_the_official_texts(nli, question, shown):
    texts, answers = ('"Ida Voss."', "", "Ida  Voss", "Ida  Voss"), ["Ida Voss", "ida voss"]
    belief, pairs = judged(nli, OFFICIAL, question, texts, answers)
    said = [f'{shown} "Ida Voss."', f"{shown} ", f"{shown} Ida  Voss"]
    gold = [f"{shown} Ida Voss", f"{shown} ida voss"]
    with_gold = {*itertools.product(said, gold), *itertools.product(gold, said)}
    among = set(itertools.product(said, repeat=2))
    assert with_gold <= pairs <= with_gold | among

    probs = {}
    for one, two in with_gold | among:
        with torch.no_grad():
            logits = nli[0](**nli[1](one, two, return_tensors="pt")).logits[0]
        contradiction, neutral, entailment = logits.softmax(-1).tolist()  # the order of its labels
        cut = len(shown) + 1
        probs[one[cut:], two[cut:]] = (entailment, neutral, contradiction)
    for one, two in itertools.combinations(sorted(said), 2):
        agrees = probs[one[cut:], two[cut:]]
        assert (one, two) in pairs
        assert ((two, one) in pairs) == (max(agrees) == agrees[0])
    sampled = Responses(texts, (torch.tensor([-1.0, -2.0]),) * 4, finished=(True,) * 4)
    assert (belief.seper, belief.seper_hard) == pytest.approx(official(sampled, answers, probs), abs=1e-5)


def test_verbatim_and_cleaned_texts_have_their_own_entries_in_a_cache(nli):
    texts, answers, cache = ('"Ida Voss."', "Paris"), ["Ida Voss"], Cache(":memory:")
    both = [OFFICIAL, Estimator.preset("official", judged_texts="cleaned")]
    alone = [judged(nli, options, QUESTION, texts, answers)[0] for options in both]
    cached = [judged(nli, options, QUESTION, texts, answers, cache)[0] for options in both]
    assert cached == alone
    assert alone[0].support != alone[1].support
    assert alone[1].support[0] == (1.0,)  # equal but for quotes and full stop: no model is asked
