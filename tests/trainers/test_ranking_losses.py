"""Each loss against a hand calculation, with lists of different lengths; gradients reach the encoder."""

import math
import statistics

import pytest
import torch
from sentence_transformers import SentenceTransformer

from trainers.ranking.losses import (
    ListCollator,
    ListLoss,
    contrastive,
    kl_regularized,
    reverse_kl,
)
from trainers.retriever import RetrieverConfig, list_loss

NAN = math.nan
SCORES = torch.tensor([[0.9, 0.1, 0.4], [0.2, 0.5, 7.0]])
LABELS = torch.tensor([[0.8, 0.0, -0.5], [0.3, 0.6, NAN]])


def softmax(values):
    total = sum(math.exp(value) for value in values)
    return [math.exp(value) / total for value in values]


def kl(p, q):
    return sum(one * math.log(one / other) for one, other in zip(p, q, strict=True))


def test_reverse_kl_by_hand():
    students = [softmax([0.9 / 0.5, 0.1 / 0.5, 0.4 / 0.5]), softmax([0.2 / 0.5, 0.5 / 0.5])]
    teachers = [softmax([0.8, 0.0, -0.5]), softmax([0.3, 0.6])]
    expected = sum(kl(p, q) for p, q in zip(students, teachers, strict=True)) / 2
    assert float(reverse_kl(SCORES, LABELS, temperature=0.5)) == pytest.approx(expected, abs=1e-6)


def test_contrastive_by_hand():
    others = torch.tensor([[0.3, -torch.inf], [-torch.inf, -torch.inf]])
    losses = [
        -math.log(softmax([0.9 / 0.5, 0.1 / 0.5, 0.4 / 0.5, 0.3 / 0.5])[0]),
        0.0,  # .3 of the second question helps, and nothing is far enough below it
        -math.log(softmax([0.5 / 0.5, 0.2 / 0.5])[0]),
    ]
    found = contrastive(SCORES, LABELS, others, temperature=0.5, margin=0.25)
    assert float(found) == pytest.approx(sum(losses) / 3, abs=1e-6)


def slow_contrastive(scores, labels, others, temperature, margin):
    """One positive at a time, with its negatives in a list."""
    losses = []
    for own, wanted, foreign in zip(scores.tolist(), labels.tolist(), others.tolist(), strict=True):
        for score, label in zip(own, wanted, strict=True):
            if label >= margin:
                lower = [other for other, lesser in zip(own, wanted, strict=True) if label - lesser >= margin]
                losses.append(-math.log(softmax([each / temperature for each in [score, *lower, *foreign]])[0]))
    return sum(losses) / len(losses)


def test_contrastive_equals_the_slow_loop():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        scores, labels, others = (torch.randn(size, generator=generator) for size in ((5, 4), (5, 4), (5, 9)))
        labels[0, 0], labels[1, 2:], others[2, 3] = 1.0, NAN, -torch.inf
        given = {"temperature": 0.7, "margin": 0.3}
        found = contrastive(scores, labels, others, **given)
        assert float(found) == pytest.approx(slow_contrastive(scores, labels, others, **given), abs=1e-5)


@pytest.mark.parametrize("loss", [reverse_kl, contrastive, kl_regularized])
def test_padding_has_no_gradient_and_none_is_nan(loss):
    scores = SCORES.clone().requires_grad_()
    none = torch.full((2, 4), -torch.inf)
    extra = {contrastive: (none,), kl_regularized: (none, SCORES.flip(1), none)}.get(loss, ())
    loss(scores, LABELS, *extra).backward()
    assert scores.grad.isfinite().all()
    assert scores.grad[1, 2] == 0
    assert (scores.grad != 0).sum() >= 4
    same = loss(torch.where(LABELS.isnan(), -55.0, SCORES), LABELS, *extra)
    assert torch.equal(same, loss(SCORES, LABELS, *extra))


def slow_kl_regularized(scores, labels, others, reference, reference_others, temperature):
    losses = []
    for own, row, foreign, own_before, foreign_before in zip(
        *(each.tolist() for each in (scores, labels, others, reference, reference_others)), strict=True
    ):
        now = [(score, 0.0) for score in foreign if score > -math.inf]
        now = [*((score, label) for score, label in zip(own, row, strict=True) if label == label), *now]
        before = [score for score, label in zip(own_before, row, strict=True) if label == label]
        before += [score for score in foreign_before if score > -math.inf]
        student = [math.exp(score / temperature) for score, _ in now]
        best = [math.exp(b / temperature + label) for b, (_, label) in zip(before, now, strict=True)]
        student, best = ([value / sum(row) for value in row] for row in (student, best))
        losses.append(sum(p * math.log(p / q) for p, q in zip(student, best, strict=True)))
    return statistics.fmean(losses)


def test_kl_regularized_is_the_divergence_from_the_reference_tilted_by_the_labels():
    torch.manual_seed(0)
    for _ in range(5):
        scores, reference, labels = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)
        others, reference_others = torch.randn(3, 6), torch.randn(3, 6)
        labels[0, 2:] = NAN
        others[2, 3] = reference_others[2, 3] = -torch.inf
        given = (scores, labels, others, reference, reference_others)
        found = kl_regularized(*given, temperature=0.7)
        assert float(found) == pytest.approx(slow_kl_regularized(*given, 0.7), abs=1e-5)


def test_without_labels_the_untrained_model_is_the_optimum():
    torch.manual_seed(0)
    scores, others = torch.randn(2, 3), torch.randn(2, 5)
    kept = (scores.clone(), others.clone())
    scores.requires_grad_()
    loss = kl_regularized(scores, torch.zeros(2, 3), others, *kept, temperature=0.5)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert scores.grad.abs().max() < 1e-6
    # unlike where a question's own passages are all there is, equal labels that are not 0 teach something
    assert kl_regularized(scores, torch.full((2, 3), 0.8), others, *kept, temperature=0.5) > 0.01


@pytest.fixture
def encoder(tiny_encoder):
    return SentenceTransformer(str(tiny_encoder), device="cpu").eval()


ROWS = [
    {"query": "who built the mill", "passages": ["ann built it", "sheep", "a mill"], "labels": [0.9, 0.0, -0.4]},
    {"query": "when did it sink", "passages": ["in 1900", "sheep"], "labels": [0.7, 0.1]},
]


def batch(encoder, **vectors):
    return features_and_labels(ListCollator(preprocess_fn=encoder.preprocess, **vectors))


def features_and_labels(collator):
    found = collator(ROWS)
    features = [
        {key.removeprefix(f"{name}_"): value for key, value in found.items() if key.startswith(f"{name}_")}
        for name in ("query", "passages")
    ]
    return features, found["label"]


def test_the_collator_takes_lists_of_any_length(encoder):
    features, labels = batch(encoder)
    assert len(features[1]["input_ids"]) == 5
    assert labels[0].tolist() == pytest.approx([0.9, 0.0, -0.4])
    assert labels[1, :2].tolist() == pytest.approx([0.7, 0.1])
    assert labels[1, 2].isnan()


def test_list_loss_scores_each_passage_with_its_own_question(encoder):
    seen = {}

    def spy(scores, labels, others):
        seen.update(scores=scores.detach(), others=others.detach())
        return scores.sum()

    features, labels = batch(encoder)
    ListLoss(encoder, spy, in_batch=True)(features, labels)
    queries = encoder.encode([row["query"] for row in ROWS], convert_to_tensor=True, normalize_embeddings=True)
    for at, row in enumerate(ROWS):
        passages = encoder.encode(row["passages"], convert_to_tensor=True, normalize_embeddings=True)
        expected = passages @ queries[at]
        assert torch.allclose(seen["scores"][at, : len(expected)], expected, atol=1e-5)
    # the second question's "sheep" is also a passage of the first: no negative for either
    assert seen["others"].isinf().tolist() == [[True, True, True, False, True], [False, True, False, True, True]]


def test_a_weighted_contrastive_loss_is_added_to_another(encoder):
    settings = {"loss": "reverse_kl", "teacher_temperature": 0.5, "margin": 0.2}
    config = RetrieverConfig(**settings, contrastive_weight=0.7)
    seen = []
    features, labels = batch(encoder)
    found = list_loss(config, encoder)(features, labels)
    ListLoss(encoder, lambda *given: seen.extend(given) or given[0].sum(), in_batch=True)(features, labels)
    scores, labels, others = seen
    in_batch = contrastive(scores, labels, others, margin=0.2)
    alone = reverse_kl(scores, labels / 0.5)
    assert in_batch > 0.01
    assert found.item() == pytest.approx((alone + 0.7 * in_batch).item(), abs=1e-6)
    without = list_loss(RetrieverConfig(**settings), encoder)(features, labels)
    assert without.item() == pytest.approx(alone.item(), abs=1e-6)


def test_list_loss_compares_with_the_untrained_model(encoder):
    seen = []
    reference = {
        name: {text: vectors[at] for at, text in enumerate(texts)}
        for name, texts in (
            ("query", [row["query"] for row in ROWS]),
            ("passages", ["ann built it", "sheep", "a mill", "in 1900"]),
        )
        for vectors in [encoder.encode(texts, convert_to_tensor=True, normalize_embeddings=True)]
    }
    features, labels = batch(encoder, reference=reference)
    ListLoss(encoder, lambda *given: seen.extend(given) or given[0].sum(), in_batch=True, reference=True)(
        features, labels
    )
    scores, labels, others, before, others_before = seen
    there = ~labels.isnan()
    assert torch.allclose(scores[there], before[there], atol=1e-5)  # nothing is trained yet
    assert torch.equal(others.isinf(), others_before.isinf())
    assert torch.allclose(others[~others.isinf()], others_before[~others.isinf()], atol=1e-5)


@pytest.mark.parametrize("loss", [reverse_kl, contrastive])
def test_one_step_moves_the_weights(encoder, loss):
    module = ListLoss(encoder, loss, in_batch=loss is contrastive)
    features, labels = batch(encoder)
    before = {name: weight.clone() for name, weight in encoder.named_parameters()}
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    first = module(features, labels)
    first.backward()
    reached = [name for name, weight in encoder.named_parameters() if weight.grad is not None and weight.grad.any()]
    assert any("word_embeddings" in name for name in reached)
    assert any("layer.1.output" in name for name in reached)
    optimizer.step()
    assert any(not torch.equal(before[name], weight) for name, weight in encoder.named_parameters())
    assert module(*batch(encoder)) < first


def test_positives_of_about_equal_labels_are_not_set_against_each_other():
    scores, labels = torch.tensor([[0.9, 0.6, 0.2]]), torch.tensor([[0.8, 0.75, 0.0]])
    losses = [-math.log(softmax([score / 0.5, 0.2 / 0.5, 0.3 / 0.5])[0]) for score in (0.9, 0.6)]
    found = contrastive(scores, labels, torch.tensor([[0.3]]), temperature=0.5, margin=0.1)
    assert float(found) == pytest.approx(sum(losses) / 2, abs=1e-6)
