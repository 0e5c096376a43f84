"""Agreement of readers' labels: simulated folders whose true agreement is known, real ones, and verdicts by hand."""

import json
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest
import torch

from seper_reward import Estimator, cli
from seper_reward.estimators.belief import weigh
from seper_reward.estimators.draws import difference, estimate
from seper_reward.labels.rows import interval_fields, sampled_responses
from tests.benchmarks.experiments.agreement import sign_shares
from tests.benchmarks.experiments.reader_labels import read_reader
from tests.benchmarks.experiments.transfer import joint_verdict, main, transfer, verdict

OPTIONS = Estimator(weighting="uniform")
QUESTIONS = 80


def context(share, random, count=20):
    """Fields of a context in which responses are right with this probability, and the estimate of SePer."""
    right = int(random.binomial(count, share))
    rows = [
        {"text": text, "count": times, "support": support, "token_log_probs": [-1.0], "finished": True}
        for text, times, support in (("right", right, 1.0), ("wrong", count - right, 0.0))
        if times
    ]
    fields = {"responses": rows, "known_leaves": [], "question_log_prob": None}
    draws = weigh(OPTIONS, sampled_responses(fields))
    found = estimate(draws, torch.tensor([float(text == "right") for text in draws.responses.texts]))
    return fields | {"std_error": found.std_error}, found


def folder(path, shares, random, *, seed=0, reader="plain", **decides):
    """Write labels of a reader that is right by these shares: per question without a passage, then with each."""
    path.mkdir()
    lines = []
    for number, (without, *others) in enumerate(shares):
        baseline, found = context(without, random)
        passages = []
        for at, share in enumerate(others):
            fields, seper = context(share, random)
            moved = difference(seper, found)
            passages.append(
                {
                    **fields,
                    "passage_id": f"p{at}",
                    "title": "",
                    "text": f"text {number} {at}",
                    "delta_seper": moved.value,
                    **interval_fields(moved),
                }
            )
        row = {"id": f"q{number}", "question": f"Who {number}?", "answers": ["right"], "baseline": baseline}
        lines.append(json.dumps({**row, "passages": passages}))
    (path / "labels.jsonl").write_text("\n".join(lines) + "\n")
    known = {"estimator": asdict(OPTIONS), "sampling": {"seed": seed}}
    known |= {"reader": reader, "prompt": {"closed_book_prompt": reader}, **decides}
    (path / "provenance.json").write_text(json.dumps({"decides": known}))
    return path


def true_shares(questions, random, opposite=0.25):
    """Two readers: passages help, harm or do nothing; for the second a share of the effects has the other sign."""
    one, other = [], []
    for _ in range(questions):
        baseline, effects = 0.5, random.choice([0.35, -0.35, 0.0], size=4, p=[0.4, 0.3, 0.3])
        turned = np.where(random.random(4) < opposite, -1, 1)
        one.append([baseline, *(baseline + effects)])
        other.append([baseline, *(baseline + effects * turned)])
    return one, other


@pytest.mark.slow
def test_the_true_agreement_is_found(tmp_path):
    random = np.random.default_rng(0)
    shares = true_shares(QUESTIONS, random)
    readers = [
        read_reader(folder(tmp_path / name, row, random, seed=seed), name)
        for seed, (name, row) in enumerate(zip("ab", shares, strict=True))
    ]
    true = [np.array([[after - row[0] for after in row[1:]] for row in rows]) for rows in shares]
    found = transfer(readers, splits=2, resamples=20)
    pair = found.pairs["a / b"]
    correlation = np.corrcoef(true[0].ravel(), true[1].ravel())[0, 1]
    assert pair["labels"]["corrected"] == pytest.approx(correlation, abs=0.08)
    assert pair["labels"]["interval"][0] < correlation < pair["labels"]["interval"][1]
    assert pair["labels"]["observed"] < correlation - 0.08
    centred = np.corrcoef(*((each - each.mean(1, keepdims=True)).ravel() for each in true))[0, 1]
    assert pair["within_questions"]["corrected"] == pytest.approx(centred, abs=0.08)
    assert pair["within_questions"]["observed"] < centred
    agreement = sign_shares(true[0].ravel(), true[1].ravel(), 0.05).agreement
    assert pair["sign"]["corrected"] == pytest.approx(agreement, abs=0.1)
    assert pair["sign"]["observed"] < agreement - 0.04
    low, high = pair["sign"]["interval"]
    assert low < pair["sign"]["corrected"] < high
    places = np.triu_indices(4, 1)
    ordered = [(each[:, places[0]] - each[:, places[1]]).ravel() for each in true]
    assert pair["order"]["corrected"] == pytest.approx(sign_shares(*ordered, 0.05).agreement, abs=0.08)
    assert (found.questions, found.labels, found.left_out) == (QUESTIONS, 4 * QUESTIONS, 0)
    assert sum(found.verdicts.values()) == 4 * QUESTIONS
    assert found.verdicts["opposite"] > 0  # so great effects are sure for both readers
    assert found.same_noise == []


@pytest.mark.slow
def test_a_reader_agrees_with_itself_once_noise_is_taken_out(tmp_path):
    random = np.random.default_rng(1)
    one, _ = true_shares(QUESTIONS, random)
    readers = [read_reader(folder(tmp_path / name, one, random, seed=0), name) for name in "ab"]
    found = transfer(readers, splits=2, resamples=20)
    pair = found.pairs["a / b"]
    assert pair["labels"]["observed"] < 0.9
    assert pair["labels"]["corrected"] == pytest.approx(1, abs=0.08)
    assert pair["sign"]["corrected"] > 0.95
    assert found.same_noise == ["a / b"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.06, 0.5, "helps"),
        (-0.5, -0.06, "harms"),
        (-0.05, 0.05, "useless"),
        (-0.06, 0.02, "unsure"),
        (0, 1, "unsure"),
    ],
)
def test_a_verdict_is_that_of_the_whole_interval(low, high, expected):
    assert verdict({"low": low, "high": high}, 0.05) == expected


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (("harms", "harms", "harms"), "harms"),
        (("useless", "useless"), "useless"),
        (("helps", "unsure", "harms"), "opposite"),
        (("helps", "useless", "unsure"), "depends"),
        (("unsure", "unsure"), "unsure"),
    ],
)
def test_a_label_is_safe_if_all_are_sure_of_the_same(verdicts, expected):
    assert joint_verdict(verdicts) == expected


@pytest.fixture
def two(tmp_path):
    random = np.random.default_rng(2)
    one, other = true_shares(3, random)
    return folder(tmp_path / "a", one, random), folder(tmp_path / "b", other, random, seed=1)


def words(*folders):
    return ["--labels", *map(str, folders), "--resamples", "20", "--splits", "2"]


def test_only_what_all_readers_labelled_counts(two):
    rows = [json.loads(line) for line in (two[1] / "labels.jsonl").read_text().splitlines()]
    rows[0]["passages"] = rows[0]["passages"][1:]
    rows[1]["passages"].reverse()
    (two[1] / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows[1:], rows[0]]))
    readers = [read_reader(path, path.name) for path in two]
    found = transfer(readers, splits=1, resamples=20)
    assert (found.questions, found.labels, found.left_out) == (3, 11, 1)
    by_key = {(row["id"], row["passage_id"]): row["labels"] for row in found.passages}
    assert by_key["q1", "p0"]["b"] == rows[1]["passages"][-1]["delta_seper"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.update(question="Whose?"), "'q0', passage id='p0': a and b have other texts"),
        (lambda row: row["passages"][0].update(text="other"), "'q0', passage id='p0': a and b have other texts"),
        (lambda row: row.update(labeler="erag"), "has labels of 'erag'; only labels of ΔSePer"),
    ],
)
def test_labels_that_cannot_be_compared_are_named(two, capsys, change, message):
    rows = [json.loads(line) for line in (two[1] / "labels.jsonl").read_text().splitlines()]
    change(rows[0])
    (two[1] / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(words(*two)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("decides", "message"),
    [
        ({"estimator": asdict(Estimator.preset("paper"))}, "labels with aliases='mean' cannot be computed on half"),
    ],
)
def test_labels_without_independent_halves_are_refused(two, tmp_path, capsys, decides, message):
    random = np.random.default_rng(3)
    other = folder(tmp_path / "c", true_shares(3, random)[0], random, **decides)
    assert main(words(two[0], other)) == 2
    assert message in capsys.readouterr().err


def test_too_few_folders_questions_or_responses_are_named(two, tmp_path, capsys):
    assert main(words(two[0])) == 2
    assert "labels must be the folders of two readers or more" in capsys.readouterr().err
    assert main(words(two[0], tmp_path / "none")) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
    rows = [json.loads(line) for line in (two[1] / "labels.jsonl").read_text().splitlines()]
    rows[0]["baseline"]["responses"] = [{**rows[0]["baseline"]["responses"][0], "count": 1}]
    (two[1] / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(words(*two)) == 2
    assert "b, question id='q0': one response has no halves" in capsys.readouterr().err
    (two[1] / "labels.jsonl").write_text(json.dumps(rows[1]) + "\n")
    assert main(words(*two)) == 2
    assert "expected at least two questions that a and b all labelled, got 1" in capsys.readouterr().err


@pytest.mark.slow
def test_real_label_folders(lane_questions, tiny_reader, tiny_entailment, tmp_path, capsys):
    label = [
        "label",
        "--input",
        lane_questions,
        "--limit",
        "4",
        "--reader",
        tiny_reader,
        "--dtype",
        "float32",
    ]
    label += [
        "--judge",
        tiny_entailment,
        "--device",
        "cpu",
        "--num_samples",
        "4",
        "--max_new_tokens",
        "6",
    ]
    for name, more in (("brief", ["--prompt", "brief"]), ("paper", ["--prompt", "paper", "--seed", "1"])):
        assert cli.main([str(word) for word in [*label, *more, "--output_dir", tmp_path / name]]) == 0
    capsys.readouterr()
    command = words(tmp_path / "brief", tmp_path / "paper")
    command += [
        "--json",
        tmp_path / "out.json",
        "--plot",
        tmp_path / "plot.svg",
        "--verdicts",
        tmp_path / "safe.jsonl",
    ]
    assert main([str(word) for word in command]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    rows = [json.loads(line) for line in (tmp_path / "safe.jsonl").read_text().splitlines()]
    labelled = (tmp_path / "brief" / "labels.jsonl").read_text().splitlines()
    count = sum(len(json.loads(line)["passages"]) for line in labelled)
    assert len(rows) == result["labels"] == count > 8
    assert Counter(row["verdict"] for row in rows) == result["verdicts"]
    assert result["readers"]["paper"]["seed"] == 1
    table = capsys.readouterr().out
    assert "| brief / paper | same sign " in table
    assert f"{count} labels of each reader" in table
    assert (tmp_path / "plot.svg").stat().st_size > 1000
