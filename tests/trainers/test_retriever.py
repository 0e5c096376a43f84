"""The retriever's recipe on tiny models: what it learns from, rounds, resuming, processes, what it saves."""

import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback

from seper_reward import load_labels
from seper_reward.labels.labelers import DeltaSePerLabeler, GoldLabeler, PassageLabeler
from seper_reward.labels.summary import label_statistics
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reports.tables import measures_table
from seper_reward.retrieval import DenseRetriever
from seper_reward.runtime.json_files import read_lines
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Passage, Query
from tests.helpers import FindsThese, two_hops, write_rows
from tests.tiny_models import make_two_encoders
from trainers import retriever
from trainers.models import load_encoder
from trainers.ranking import run
from trainers.ranking.data import read_questions
from trainers.ranking.evaluation import changes, rank_by
from trainers.ranking.labelling import candidates, label
from trainers.runs import last_checkpoint

ROOT = Path(__file__).parents[2]


@pytest.fixture
def settings(retriever_settings):
    return retriever_settings


def weights(folder):
    return SentenceTransformer(str(folder), device="cpu").state_dict()


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_command_trains_saves_and_tells(settings, tmp_path, capsys, tiny_encoder, tiny_reader, monkeypatch):
    sampled = recorded(monkeypatch)
    assert retriever.main([*settings, "--rounds", "2"]) == 0
    folder = tmp_path / "run"
    results = json.loads((folder / "results.json").read_text())
    assert set(results["before"]) >= {"ndcg@5", "mrr", "recall@1", "seper@1", "exact_match@1"}
    assert "seper@1_held_out" in results["before"]
    for reader in (str(tiny_reader), str(tmp_path / "held_out")):
        moved = results["questions"][reader]
        assert moved["wins"] + moved["losses"] + moved["ties"] == results["test_questions"]
    losses = [row["loss"] for row in results["rounds"][0]["log"] if "loss" in row]
    assert len(losses) >= 4
    assert all(math.isfinite(loss) for loss in losses)
    assert any("eval_ndcg@5" in row for row in results["rounds"][0]["log"])
    assert not same(weights(tiny_encoder), weights(folder / "model"))
    assert same(weights(folder / "round-2" / "model"), weights(folder / "model"))
    text = (folder / "model" / "README.md").read_text()
    assert "Retriever trained on seper_gain labels" in text
    assert measures_table({side: results[side] for side in ("before", "after")}) in text
    assert (folder / "results.svg").stat().st_size > 1000
    assert "SePer by question" in capsys.readouterr().out
    # the second round asked only for what it newly retrieved
    assert len(sampled) == len(set(sampled))
    assert len(load_labels(folder).labeled()) > 10  # rows as `seper-reward label` writes them
    # a finished run is measured again without training: by another reader, from another folder of weights
    (tmp_path / "other").symlink_to(tmp_path / "held_out")
    again = [*settings, "--rounds", "2", "--eval_readers", str(tmp_path / "other")]
    monkeypatch.setattr(retriever, "train_once", None)
    assert retriever.main(again) == 0
    assert "seper@1_other" in json.loads((folder / "results.json").read_text())["after"]


def recorded(monkeypatch):
    """Return the list of all requests that readers get from now on."""
    sampled, sample = [], ResponseSampler.sample

    def spy(self, requests):
        sampled.extend((self.name, each.prompt, each.answers, each.question) for each in requests)
        return sample(self, requests)

    monkeypatch.setattr(ResponseSampler, "sample", spy)
    return sampled


@pytest.mark.slow
def test_a_run_killed_while_labelling_resumes_from_the_cache(settings, tmp_path, monkeypatch):
    settings = [*settings, "--max_steps", "1", "--eval_strategy", "no"]
    batches, label_batch = [], DeltaSePerLabeler.label_batch

    def dying(self, queries):
        batches.append(queries)
        if len(batches) > 10:
            raise KeyboardInterrupt
        return label_batch(self, queries)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaSePerLabeler, "label_batch", dying)
        with pytest.raises(KeyboardInterrupt):
            retriever.main(settings)
    assert not (tmp_path / "run" / "labels.jsonl").exists()
    sampled = recorded(monkeypatch)
    assert retriever.main(settings) == 0
    resumed, labels = len(sampled), (tmp_path / "run" / "labels.jsonl").read_text()
    settings[settings.index("--output_dir") + 1] = str(tmp_path / "whole")
    sampled.clear()
    assert retriever.main(settings) == 0
    assert (tmp_path / "whole" / "labels.jsonl").read_text() == labels
    assert 0 < resumed < len(sampled) - 10


class Dies(TrainerCallback):
    """Fails as a run does that is killed, at a step of the first attempt."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights(settings, tmp_path, monkeypatch):
    settings = [*settings, "--rounds", "2", "--save_strategy", "steps"]
    settings += ["--save_steps", "1", "--eval_strategy", "no", "--labeler", "gold"]
    assert retriever.main(settings) == 0
    settings[settings.index("--output_dir") + 1] = str(tmp_path / "again")
    trainer = retriever.SentenceTransformerTrainer
    started = []

    def dying(*args, **kwargs):
        started.append(1)
        callbacks = [Dies(3)] if len(started) in (1, 3) else []
        return trainer(*args, callbacks=callbacks, **kwargs)

    monkeypatch.setattr(retriever, "SentenceTransformerTrainer", dying)
    for _ in range(2):  # once in each round
        with pytest.raises(KeyboardInterrupt):
            retriever.main(settings)
    assert retriever.main(settings) == 0
    assert len(started) == 4
    assert same(weights(tmp_path / "run" / "model"), weights(tmp_path / "again" / "model"))


def test_a_wrong_reader_is_told_before_training(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(retriever, "train_once", None)
    with pytest.raises(OSError, match="nowhere"):
        retriever.main([*settings, "--eval_readers", str(tmp_path / "nowhere")])


def test_an_id_means_one_text(settings, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "p1", "text": "Another text."}\n')
    with pytest.raises(ValueError, match=r"its passage id='p1' is .*, but the corpus has 'Another text\.'"):
        retriever.main([*settings, "--corpus", str(corpus)])


def test_checkpoints_that_were_cut_off_are_passed_over(tmp_path):
    for step, whole in ((2, True), (10, True), (12, False)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if whole:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert last_checkpoint(tmp_path / "none") is None


def test_questions_without_answers_are_learned_from_as_well(settings, tmp_path):
    source = Path(settings[settings.index("--input") + 1])
    rows = list(read_lines(source))
    for row in rows[::2]:
        row["answers"] = []
    settings[settings.index("--input") + 1] = str(write_rows(tmp_path / "mixed.jsonl", rows))
    assert retriever.main([*settings, "--max_steps", "1", "--eval_strategy", "no"]) == 0
    labels = list(read_lines(tmp_path / "run" / "labels.jsonl"))
    kinds = {bool(row["answers"]): set(row["passages"][0]) & {"delta_seper", "question_gain"} for row in labels}
    assert kinds == {False: {"question_gain"}, True: {"delta_seper", "question_gain"}}
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert 0 <= results["after"]["seper@1"] <= 1


def test_the_label_of_delta_seper_is_a_setting(tiny_scorer):
    hard = run.labeler_for(retriever.RetrieverConfig(label="delta_seper_hard"), tiny_scorer)
    assert hard.name == "delta_seper_hard"
    assert hard.fingerprint == {**tiny_scorer.fingerprint, "question_weight": 0.5}
    config = retriever.RetrieverConfig(label="delta_seper_hard", sets="conditional", learn_from="paths")
    assert run.labeler_for(config, tiny_scorer).fingerprint["label"] == "delta_seper_hard"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eval_readers": ["plain", "embedded"]}, "must not contain the labelling reader, 'embedded'"),
        ({"sets": "conditional"}, r"sets=conditional measures sets .* learn from paths"),
        ({"learn_from": "paths"}, r"learn_from=paths needs labels of sets or .* got sets=none"),
        ({"list_size": 1}, "list_size must be at least 2, got 1"),
        ({"hops": 0}, "hops must be at least 1, got 0"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"heterogeneity": 0.0}, r"heterogeneity must be in \(0, 1\]"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        retriever.RetrieverConfig(**options)


def test_the_regularized_loss_trains_and_other_settings_are_refused(settings, tmp_path, lane_questions):
    settings += ["--labeler", "gold", "--eval_strategy", "no", "--num_train_epochs", "4"]
    assert retriever.main([*settings, "--loss", "kl_regularized"]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    losses = [row["loss"] for row in results["rounds"][0]["log"] if "loss" in row]
    half = len(losses) // 2
    assert sum(losses[-half:]) < sum(losses[:half])
    with pytest.raises(
        ValueError, match=r"other settings; changed: loss was 'kl_regularized', is 'reverse_kl'\. Name another folder"
    ):
        retriever.main(settings)
    lane_questions.write_text(lane_questions.read_text().replace("Owner 3", "Owner 33"))
    with pytest.raises(ValueError, match="other settings; changed: other data"):
        retriever.main([*settings, "--loss", "kl_regularized"])


@pytest.mark.parametrize("loss", ["kl_regularized", pytest.param("reverse_kl", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_model_with_two_encoders_trains_both(settings, loss, tiny_encoder, tmp_path):
    folder = make_two_encoders(tiny_encoder, tmp_path / "two")
    retriever.main([*settings, "--model", str(folder), "--loss", loss])
    before, after = (SentenceTransformer(str(path), device="cpu") for path in (folder, tmp_path / "run" / "model"))
    assert (after.similarity_fn_name, after.prompts) == (before.similarity_fn_name, before.prompts)
    for encode in ("encode_query", "encode_document"):
        old, new = (getattr(model, encode)(["who keeps the ferry?"]) for model in (before, after))
        assert not np.allclose(old, new, atol=1e-4)


@pytest.mark.slow
def test_two_processes_make_the_same_labels_and_nearly_the_same_losses(
    settings, lane_questions, tmp_path, tiny_encoder, monkeypatch
):
    monkeypatch.setattr(run, "RESOLUTION", 0.0)  # all questions of the tiny reader are learned
    script = tmp_path / "unrounded.py"
    script.write_text(
        "from trainers import retriever\nfrom trainers.ranking import run\nrun.RESOLUTION = 0.0\nretriever.main()\n"
    )
    still = tmp_path / "still"  # without dropout, whose noise belongs to a process
    shutil.copytree(tiny_encoder, still)
    config = json.loads((still / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (still / "config.json").write_text(json.dumps(config))
    rows = lane_questions.read_text().splitlines()
    split = read_questions(retriever.RetrieverConfig(input=str(lane_questions), test_share=0.25))
    kept = [*split.train[:16], *split.dev, *split.test]  # 16 are one batch, or half a batch of each process
    wanted = {query.id for query in kept}
    lane_questions.write_text("\n".join(row for row in rows if json.loads(row)["id"] in wanted))
    settings += ["--max_steps", "3", "--eval_strategy", "no", "--model", str(still)]
    assert retriever.main([*settings, "--per_device_train_batch_size", "16"]) == 0
    settings[settings.index("--output_dir") + 1] = str(tmp_path / "two")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads()), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, str(script), *settings, "--per_device_train_batch_size", "8"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (sorted((tmp_path / name / "labels.jsonl").read_text().splitlines()) for name in ("run", "two"))
    assert one == two
    runs = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("run", "two")]
    first, other = ([row["loss"] for row in run["rounds"][0]["log"] if "loss" in row] for run in runs)
    assert len(first) == len(other) == 3
    assert other == pytest.approx(first, rel=1e-3)
    assert first[2] < first[0]
    assert runs[0]["after"] == runs[1]["after"]


@pytest.mark.slow
def test_wandb_offline(settings, tmp_path):
    pytest.importorskip("wandb")
    settings += ["--labeler", "gold", "--report_to", "wandb"]
    # a process of its own: wandb remembers the folder of the first run
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "trainers.retriever", *settings]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (log,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    content = log.read_bytes()
    for name in (b"labels/share_harmful", b"seconds/labelling", b"test/after/seper@1", b"train/loss"):
        assert name in content


def test_candidates_keep_what_is_known_of_a_query(tiny_encoder):
    known = Passage("Ann owns it.", id="a", metadata={"relevant": True})
    corpus = [Passage("Ann owns it.", id="a"), Passage("Sheep.", id="b"), Passage("Bob.", id="c")]
    finds = FindsThese([corpus[1], corpus[0]])
    queries = [Query("q", "Who?", ("Ann",), (known, corpus[2]))]
    (both,) = candidates(queries, finds, 2, keep_own=True)
    assert [passage.id for passage in both.passages] == ["a", "c", "b"]
    (found,) = candidates(queries, finds, 2, keep_own=False)
    assert [passage.id for passage in found.passages] == ["b", "a"]
    assert found.passages[1].metadata == {"relevant": True}
    (given,) = candidates(queries, None, 2, keep_own=True)
    assert [passage.id for passage in given.passages] == ["a", "c"]


def test_a_label_that_is_no_number_leaves_out_its_question_alone(tmp_path, capsys):
    class Broken(PassageLabeler):
        name = "broken"

        def label(self, query):
            return LabeledQuery(query, (math.nan if query.id == "b" else 1 / 3,), (0.1,))

    queries = [Query(name, "Who?", ("Ann",), (Passage("x", id="1"),)) for name in "abc"]
    found, column = label(Broken(), [*queries, Query("none", "Who?", ("Ann",))], path=tmp_path / "labels.jsonl")
    assert column == "broken"
    assert [(row.query, row.labels) for row in found] == [(queries[at], (0.333333,)) for at in (0, 2)]
    assert [row["id"] for row in read_lines(tmp_path / "labels.jsonl")] == ["a", "c"]
    assert "question id='b' left out: the labeler returned nan" in capsys.readouterr().err


def test_labels_of_batches_keep_their_order_and_leave_out_what_fails(tiny_scorer, capsys, monkeypatch):
    monkeypatch.setattr(SePerScorer, "batch_size", 4)
    asked = ["Who built the mill?", "why " * 600, *(f"Who burned mill {n}?" for n in range(4))]
    queries = [
        Query(str(n), question, ("Ann",), (Passage("Ann did.", id="a"), Passage("No.", id="b")))
        for n, question in enumerate(asked)
    ]
    found, _ = label(DeltaSePerLabeler(tiny_scorer), queries, "delta_seper")
    assert [row.query.id for row in found] == [query.id for query in queries if query.id != "1"]
    assert "question id='1' left out" in capsys.readouterr().err
    alone = DeltaSePerLabeler(tiny_scorer).label(queries[-1])
    assert found[-1].labels == pytest.approx(alone.labels, abs=1e-2)


def test_label_statistics():
    passages = tuple(Passage("x", id=str(at)) for at in range(4))
    row = LabeledQuery(Query("q", "Who?", ("Ann",), passages), (0.6, 0.0, -0.3, -0.1), (0.1, 0.2, 0.1, 0.0))
    found = label_statistics([row], margin=0.2)
    assert (found["mean"], found["share_helpful"], found["share_harmful"]) == (0.05, 0.25, 0.25)
    assert (found["passages"], found["share_questions_helped"], found["mean_std_error"]) == (4, 1.0, 0.1)


def test_questions_are_split_by_id(lane_questions):
    config = retriever.RetrieverConfig(input=str(lane_questions), test_share=0.25, dev_share=0.25)
    split = read_questions(config)
    ids = [{query.id for query in rows} for rows in (split.train, split.dev, split.test)]
    assert sum(map(len, ids)) == len(set.union(*ids)) == 24
    assert read_questions(replace(config, test_share=0.5, dev_share=0.0)).dev == []
    assert ids[2] < {query.id for query in read_questions(replace(config, test_share=0.5, dev_share=0.0)).test}
    assert len(split.corpus) == 60
    with pytest.raises(ValueError, match="for dev, got none of 2; give more questions, or set dev_share to 0"):
        read_questions(replace(config, limit=2, dev_share=0.01))


def test_questions_that_share_a_supporting_passage_are_not_divided(capsys):
    def supporting(rows):
        return {each.id for query in rows for each in query.passages if each.metadata["role"] == "supporting"}

    config = retriever.RetrieverConfig(test_share=0.5, dev_share=0.1)
    before, after = read_questions(config), read_questions(replace(config, split_by="passage"))
    assert supporting(before.test) & supporting(before.train)  # by the id of the question alone, they are divided
    for one, other in itertools.combinations((after.train, after.dev, after.test), 2):
        assert not supporting(one) & supporting(other)
    assert sum(map(len, after[1:])) == sum(map(len, before[1:])) == 162
    assert re.search(r"^\d+ clusters by passage; the largest has \d+ of 162 questions$", capsys.readouterr().err)


def test_a_cluster_goes_where_its_smallest_id_belongs(tmp_path):
    texts = {"q26": ["Ann.", "Sheep."], "q3": ["Fog."], "q1": ["Sheep.", "Bob."], "q4": ["Tar."]}
    rows = [
        {"id": name, "question": f"Who is {name}?", "answers": ["Ann"], "passages": own} for name, own in texts.items()
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    ids = [[query.id for query in split] for split in read_questions(retriever.RetrieverConfig(input=str(path)))[1:]]
    assert ids == [["q3", "q4"], ["q26"], ["q1"]]
    config = retriever.RetrieverConfig(input=str(path), split_by="passage", dev_share=0.0)
    assert [[query.id for query in split] for split in read_questions(config)[1:]] == [["q3", "q4"], [], ["q26", "q1"]]


def test_one_cluster_of_all_questions_cannot_be_split(tmp_path):
    rows = [{"id": f"q{at}", "question": f"Who is {at}?", "answers": ["Ann"], "passages": ["All."]} for at in range(9)]
    path = tmp_path / "shared.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    config = retriever.RetrieverConfig(input=str(path), test_share=0.4, dev_share=0.0)
    assert read_questions(config).test
    with pytest.raises(ValueError, match=r"got none of 9; 9 of them are one cluster by passage, which is not divided"):
        read_questions(replace(config, split_by="passage"))


def test_without_labels_that_differ_there_is_nothing_to_learn():
    row = GoldLabeler().label(Query("q", "Who?", ("Ann",), (Passage("x", id="1"), Passage("y", id="2"))))
    with pytest.raises(ValueError, match=r"\(heterogeneity=0\.1\) and by more than min_spread=0\.05, got none of 1"):
        run.teacher_rows([row], retriever.RetrieverConfig())


def test_what_may_be_chance_is_not_taught_and_the_rest_is_shrunk(capsys, monkeypatch):
    monkeypatch.setattr(run, "RESOLUTION", 0.0)
    passages = tuple(Passage(f"t{at}", id=str(at)) for at in range(3))
    query = Query("q", "Who?", ("Ann",), passages)
    # mean squared error .02 without the baseline's, so that p = exp(-.14 / .04) = .03, and 5 / 7 of the spread is real
    row = LabeledQuery(query, (0.5, 0.1, 0.0), tuple(math.hypot(own, 0.3) for own in (0.1, 0.2, 0.1)), 0.3)
    chance = LabeledQuery(query, (0.5, 0.1, 0.0), (0.3, 0.3, 0.3))
    (taught,) = run.teacher_rows([row, chance], retriever.RetrieverConfig())
    assert taught["labels"] == pytest.approx([0.2 + 0.3 * 5 / 7, 0.2 - 0.1 * 5 / 7, 0.2 - 0.2 * 5 / 7])
    assert "1 of 2 questions have labels to learn from" in capsys.readouterr().err
    as_they_are = retriever.RetrieverConfig(heterogeneity=1.0, shrink=False)
    assert [each["labels"] for each in run.teacher_rows([row, chance], as_they_are)] == [pytest.approx(row.labels)] * 2
    with pytest.raises(ValueError, match=r"got none of 1"):  # .357 of the spread of .5 is left
        run.teacher_rows([row], retriever.RetrieverConfig(min_spread=0.4))
    # the best and the worst of four differ by chance more than two would: p = .13, and .02 without those between
    query = replace(query, passages=(*passages, Passage("t3", id="3")))
    four = LabeledQuery(query, (0.5, 0.25, 0.25, 0.0), (0.15,) * 4)
    with pytest.raises(ValueError, match="got none of 1"):
        run.teacher_rows([four], retriever.RetrieverConfig(list_size=2))
    assert run.teacher_rows([four.keep([0, 3])], retriever.RetrieverConfig(list_size=2))


def test_what_is_taught_is_filtered_and_rounded():
    passages = tuple(Passage(f"t{at}", id=str(at)) for at in range(3))
    row = LabeledQuery(Query("q", "Who?", ("Ann",), passages), (0.44, -0.32, 0.02), (0.1, 0.1, 0.1))
    (taught,) = run.teacher_rows([row], retriever.RetrieverConfig())
    assert taught["labels"] == pytest.approx([0.4, -0.3, 0.0])
    near = replace(row, labels=(0.44, 0.36, 0.4))  # equal after rounding
    with pytest.raises(ValueError, match="got none of 1"):
        run.teacher_rows([near], retriever.RetrieverConfig(heterogeneity=1.0, shrink=False))


def test_wins_by_hand():
    before, after = (
        [
            {"id": at, "question": "Who?", "passages": [], "seper": value, "exact_match": value}
            for at, value in enumerate(values)
        ]
        for values in ((0.1, 0.5, 0.9, 0.5, 0.3), (0.9, 0.52, 0.1, 0.6, None))
    )
    found = changes(before, after)
    assert (found["wins"], found["losses"], found["ties"]) == (2, 1, 1)


def test_more_tokens_than_the_model_has_positions_for_are_refused(tiny_encoder):
    assert load_encoder(str(tiny_encoder), 100).max_seq_length == 100
    with pytest.raises(ValueError, match=r"max_seq_length must be at most 128, the positions of .*, got 300"):
        load_encoder(str(tiny_encoder), 300)


def test_feedback_rows_are_texts_as_the_reader_sees_them():
    query = Query("q", "Who?", ("Ann",), (Passage("Ann owns it.", "Mill", "1"), Passage("Sheep.", id="2")))
    row = LabeledQuery(query, (0.5, 0.0), (0.1, 0.1))
    rows = run.teacher_rows([row], retriever.RetrieverConfig())
    assert rows == [{"query": "Who?", "passages": ["Mill: Ann owns it.", "Sheep."], "labels": [0.5, 0.0]}]


def test_two_hops_are_rows_of_their_own(capsys):
    labeled = two_hops()
    paths = {"sets": "conditional", "learn_from": "paths", "shrink": False}
    rows = run.teacher_rows([labeled], retriever.RetrieverConfig(**paths))
    asked = "Where was the owner of the mill born? [SEP] The mill is Ida's."
    assert [row["query"] for row in rows] == [labeled.query.question, asked]
    assert [row["labels"] for row in rows] == [
        pytest.approx([1.0, 1.0, 0.5, 0.0]), pytest.approx([0.5, 0.0, -0.6])
    ]  # fmt: skip
    # beside the second passage a single one was measured, which has no other to be better than
    assert "2 of 3 questions by hop have labels to learn from" in capsys.readouterr().err
    # a filter takes a hop, not the question: labels spread by 1 and by 1.1
    config = retriever.RetrieverConfig(**paths, min_spread=1.05)
    assert [row["query"] for row in run.teacher_rows([labeled], config)] == [asked]


def test_a_second_hop_is_learned(tmp_path, tiny_encoder):
    """Trained on both hops, the model finds the second passage once it has read the first; on one, it does not."""
    labeled = two_hops()
    corpus = {passage.id: passage for passage in labeled.query.passages}

    def found(learn_from, hops):
        model = SentenceTransformer(str(tiny_encoder), device="cpu")
        sets = "none" if learn_from == "singles" else "conditional"
        config = retriever.RetrieverConfig(sets=sets, learn_from=learn_from, shrink=False)
        arguments = retriever.RetrieverArguments(
            output_dir=str(tmp_path / learn_from), learning_rate=2e-3, max_steps=60, save_strategy="no",
            eval_strategy="no", bf16=False, disable_tqdm=True, lr_scheduler_type="constant", seed=1,
        )  # fmt: skip
        retriever.train_once(model, [labeled], config, arguments)
        by_model = DenseRetriever(model, corpus)
        return [[each.id for each in rank_by(by_model, [labeled.query], hops=count)[0]] for count in hops]

    one, two = found("paths", (1, 2))
    assert set(two[:2]) == {"0", "1"}  # the first list has equal labels for both
    one, two = found("singles", (1, 2))
    assert one[:2] == two[:2] == ["0", "2"]


@pytest.mark.slow
def test_marks_teach_hops_and_two_hops_are_measured(settings, tmp_path, lane_questions):
    rows = [json.loads(line) for line in lane_questions.read_text().splitlines()]
    for row in rows:
        row["passages"][1]["relevant"] = True
    lane_questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings += ["--labeler", "gold", "--learn_from", "paths", "--hops", "2"]
    assert retriever.main([*settings, "--eval_top_k", "2"]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert set(results["after"]) >= {"recall@2", "seper@2", "exact_match@2", "seper@2_held_out"}
    assert "[SEP]" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_candidates_are_retrieved_in_hops():
    finds = FindsThese([Passage("Ann.", id="a"), Passage("Bob.", id="b")])
    (query,) = candidates([Query("q", "Who?", ("Ann",))], finds, 2, keep_own=False, hops=2)
    assert [passage.id for passage in query.passages] == ["a", "b"]
    assert [asked for asked, _ in finds.asked] == [["Who?"], ["Who? [SEP] Ann."]]
