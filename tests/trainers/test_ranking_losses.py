"""Each loss against a hand calculation, with lists of different lengths; gradients reach the encoder."""

import math
import statistics

import pytest
import torch
from sentence_transformers import SentenceTransformer

from trainers.ranking.losses import ListCollator, ListLoss, kl_regularized, reverse_kl

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


@pytest.mark.parametrize("loss", [reverse_kl, kl_regularized])
def test_losses_give_padding_no_gradient(loss):
    scores = SCORES.clone().requires_grad_()
    extra = (SCORES.flip(1),) if loss is kl_regularized else ()
    loss(scores, LABELS, *extra).backward()
    assert scores.grad.isfinite().all()
    assert scores.grad[1, 2] == 0
    assert (scores.grad != 0).sum() >= 4
    same = loss(torch.where(LABELS.isnan(), -55.0, SCORES), LABELS, *extra)
    assert torch.equal(same, loss(SCORES, LABELS, *extra))


def test_kl_regularized_by_a_slow_loop():
    torch.manual_seed(0)
    scores, reference, labels = torch.randn(3, 6), torch.randn(3, 6), torch.randn(3, 6)
    labels[0, 2:4], labels[1, 4:] = NAN, 0.0
    losses = []
    for now, before, row in zip(*(each.tolist() for each in (scores, reference, labels)), strict=True):
        places = [place for place, label in enumerate(row) if not math.isnan(label)]
        student = softmax([now[place] / 0.7 for place in places])
        losses.append(kl(student, softmax([before[place] / 0.7 + row[place] for place in places])))
    found = kl_regularized(scores, labels, reference, temperature=0.7)
    assert float(found) == pytest.approx(statistics.fmean(losses), abs=1e-5)


def test_kl_regularized_without_labels_is_least_at_the_reference():
    torch.manual_seed(0)
    scores = torch.randn(2, 8)
    kept, labels = scores.clone(), torch.zeros(2, 8)
    scores.requires_grad_()
    loss = kl_regularized(scores, labels, kept, temperature=0.5)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert scores.grad.abs().max() < 1e-6
    # unlike in a question's own passages alone, equal labels that are not 0 teach something
    labels[:, :3] = 0.8
    assert kl_regularized(scores, labels, kept, temperature=0.5) > 0.01


@pytest.fixture
def encoder(tiny_encoder):
    return SentenceTransformer(str(tiny_encoder), device="cpu").eval()


ROWS = [
    {"query": "who built the mill", "passages": ["ann built it", "sheep", "a mill"], "labels": [0.9, 0.0, -0.4]},
    {"query": "when did it sink", "passages": ["in 1900", "sheep"], "labels": [0.7, 0.1]},
]
PASSAGES = [text for row in ROWS for text in row["passages"]]
QUERIES = [row["query"] for row in ROWS]


def batch(encoder, **vectors):
    collated = ListCollator(preprocess_fn=encoder.preprocess, **vectors)(ROWS)
    features = [
        {key.removeprefix(f"{name}_"): value for key, value in collated.items() if key.startswith(f"{name}_")}
        for name in ("query", "passages")
    ]
    return features, collated["label"]


def similarities(encoder):
    queries, passages = (
        encoder.encode(texts, convert_to_tensor=True, normalize_embeddings=True) for texts in (QUERIES, PASSAGES)
    )
    return queries @ passages.T


def a_reference():
    """Random vectors of another model, by text."""
    generator = torch.Generator().manual_seed(0)
    return {
        name: {text: torch.randn(4, generator=generator) / 2 for text in dict.fromkeys(texts)}
        for name, texts in (("query", QUERIES), ("passages", PASSAGES))
    }


def test_list_loss_scores_each_passage_with_its_own_question(encoder):
    near = similarities(encoder)
    scores = torch.stack([near[0, :3], torch.cat([near[1, 3:], torch.zeros(1)])])
    labels = torch.tensor([[0.9, 0.0, -0.4], [0.7, 0.1, NAN]])
    found = ListLoss(encoder, 0.5)(*batch(encoder))
    assert found.item() == pytest.approx(reverse_kl(scores, labels / 0.5).item(), abs=1e-5)


def test_list_loss_compares_all_passages_with_the_reference(encoder):
    reference = a_reference()
    before = (
        torch.stack(list(reference["query"].values()))
        @ torch.stack([reference["passages"][text] for text in PASSAGES]).T
    )
    # "sheep" is a passage of both questions: the other's copy is left out
    labels = torch.tensor([[0.9, 0.0, -0.4, 0.0, NAN], [0.0, NAN, 0.0, 0.7, 0.1]])
    expected = kl_regularized(similarities(encoder), labels / 0.5, before)
    found = ListLoss(encoder, 0.5, reference=True)(*batch(encoder, reference=reference))
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)


@pytest.mark.parametrize("regularized", [False, True])
def test_list_loss_moves_the_weights(encoder, regularized):
    module = ListLoss(encoder, reference=regularized)
    vectors = {"reference": a_reference()} if regularized else {}
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    first = module(*batch(encoder, **vectors))
    first.backward()
    reached = [name for name, weight in encoder.named_parameters() if weight.grad is not None and weight.grad.any()]
    assert any("word_embeddings" in name for name in reached)
    assert any("layer.1.output" in name for name in reached)
    optimizer.step()
    assert module(*batch(encoder, **vectors)) < first
