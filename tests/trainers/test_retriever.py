"""The retriever's recipe on tiny models: what it learns from, rounds, resuming, processes, what it saves."""

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from seper_reward import load_labels
from seper_reward.labels.labelers import PassageLabeler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.retrieval import DenseRetriever
from seper_reward.runtime.json_files import read_lines
from seper_reward.statistics import Statistic
from seper_reward.types import LabeledQuery, Passage, Query
from tests.helpers import FindsThese, launch, two_hops, write_rows
from tests.tiny_models import make_two_encoders, without_dropout
from trainers import retriever
from trainers.models import load_encoder
from trainers.options import RerankerConfig, RetrieverConfig
from trainers.ranking import run
from trainers.ranking.data import read_questions
from trainers.ranking.evaluation import leads, rank_by
from trainers.ranking.labelling import candidates, label
from trainers.ranking.tables import measures_table
from trainers.runs import last_checkpoint


@pytest.fixture
def settings(retriever_settings):
    return retriever_settings


def results_of(folder):
    return json.loads((folder / "results.json").read_text())


def weights(folder):
    return SentenceTransformer(str(folder), device="cpu").state_dict()


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_main_trains_saves_and_measures_again(settings, tmp_path, capsys, tiny_encoder, tiny_reader, monkeypatch):
    sampled = recorded(monkeypatch)
    assert retriever.main([*settings, "--rounds", "2"]) == 0
    folder = tmp_path / "run"
    results = results_of(folder)
    measures = {"ndcg@5", "mrr", "recall@1", "seper@1", "exact_match@1", "seper@1_held_out"}
    assert set(results["before"]) >= measures
    change = results["after"]["seper@1_held_out"] - results["before"]["seper@1_held_out"]
    assert results["lead"]["seper@1_held_out"]["value"] == pytest.approx(change, abs=2e-4)
    log = results["rounds"][0]["log"]
    assert sum("loss" in row for row in log) >= 4
    assert any("eval_ndcg@5" in row for row in log)
    assert not same(weights(tiny_encoder), weights(folder / "model"))
    assert same(weights(folder / "round-2" / "model"), weights(folder / "model"))
    text = (folder / "model" / "README.md").read_text()
    assert "Retriever trained on seper_gain labels" in text
    lead = {measure: Statistic(**value) for measure, value in results["lead"].items()}
    table = measures_table({"before": results["before"], "after": results["after"], "lead": lead})
    assert table in text
    assert (folder / "results.svg").stat().st_size > 1000
    assert table in capsys.readouterr().out
    # the second round asked only for what it newly retrieved
    assert len(sampled) == len(set(sampled))
    assert len(load_labels(folder).labeled()) > 10  # rows as `seper-reward label` writes them
    # a finished run is measured again without training: by another reader, from another folder of weights
    (tmp_path / "other").symlink_to(tmp_path / "held_out")
    monkeypatch.setattr(retriever, "train_once", None)
    assert retriever.main([*settings, "--rounds", "2", "--eval_readers", str(tmp_path / "other")]) == 0
    assert "seper@1_other" in results_of(folder)["after"]


def recorded(monkeypatch):
    """Return the list of all requests that readers get from now on."""
    sampled, sample = [], ResponseSampler.sample

    def spy(self, requests):
        sampled.extend((self.name, each.prompt, each.answers, each.question) for each in requests)
        return sample(self, requests)

    monkeypatch.setattr(ResponseSampler, "sample", spy)
    return sampled


def judged(labels, errors, baseline_error=0.0):
    passages = tuple(Passage(f"text {at}", id=str(at)) for at in range(len(labels)))
    return LabeledQuery(Query("q", "Who?", ("Ann",), passages), tuple(labels), tuple(errors), baseline_error)


def test_main_refuses_a_missing_reader_and_another_corpus_before_training(settings, tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        retriever.main([*settings, "--eval_readers", str(tmp_path / "nowhere")])
    corpus = write_rows(tmp_path / "corpus.jsonl", [{"id": "p1", "text": "Another text."}])
    with pytest.raises(ValueError, match=r"its passage id='p1' is .*, but the corpus has 'Another text\.'"):
        retriever.main([*settings, "--corpus", str(corpus)])


def test_last_checkpoint_is_a_whole_one(tmp_path):
    for step, whole in ((2, True), (10, True), (12, False)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if whole:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert last_checkpoint(tmp_path / "none") is None


def test_main_learns_from_questions_without_answers(settings, tmp_path, lane_questions):
    rows = list(read_lines(lane_questions))
    write_rows(lane_questions, [{**row, "answers": row["answers"] if at % 2 else []} for at, row in enumerate(rows)])
    assert retriever.main([*settings, "--max_steps", "1", "--eval_strategy", "no"]) == 0
    labels = list(read_lines(tmp_path / "run" / "labels.jsonl"))
    kinds = {bool(row["answers"]): set(row["passages"][0]) & {"delta_seper", "question_gain"} for row in labels}
    assert kinds == {False: {"question_gain"}, True: {"delta_seper", "question_gain"}}
    assert 0 <= results_of(tmp_path / "run")["after"]["seper@1"] <= 1


def test_labeler_for_takes_label_and_sets(tiny_scorer):
    assert run.labeler_for(RetrieverConfig(label="delta_seper_hard"), tiny_scorer).name == "delta_seper_hard"
    config = RetrieverConfig(label="delta_seper_hard", sets="conditional", learn_from="paths")
    assert run.labeler_for(config, tiny_scorer).fingerprint["label"] == "delta_seper_hard"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (RetrieverConfig, {"eval_readers": ["plain", "embedded"]}, "contain the labelling reader, 'embedded'"),
        (RetrieverConfig, {"sets": "conditional"}, r"sets=conditional measures sets .* learn from paths"),
        (RetrieverConfig, {"learn_from": "paths"}, r"learn_from=paths needs labels of sets or .* got sets=none"),
        (RetrieverConfig, {"rounds": 0}, "rounds must be at least 1, got 0"),
        (RetrieverConfig, {"heterogeneity": 0.0}, r"heterogeneity must be in \(0, 1\]"),
        (RerankerConfig, {"list_size": 1}, "list_size must be at least 2, got 1"),
        (RerankerConfig, {"pair_tokens": 1}, "pair_tokens must be at least 2, got 1"),
    ],
)
def test_ranking_configs_refuse(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options)


def test_main_trains_by_the_regularized_loss_and_refuses_other_settings(settings, tmp_path, lane_questions):
    settings += ["--labeler", "gold", "--eval_strategy", "no", "--num_train_epochs", "4"]
    assert retriever.main(settings) == 0
    losses = [row["loss"] for row in results_of(tmp_path / "run")["rounds"][0]["log"] if "loss" in row]
    half = len(losses) // 2
    assert sum(losses[-half:]) < sum(losses[:half])
    with pytest.raises(ValueError, match=r"settings; changed: loss was 'kl_regularized', is 'reverse_kl'\. Name ano"):
        retriever.main([*settings, "--loss", "reverse_kl"])
    lane_questions.write_text(lane_questions.read_text().replace("Owner 3", "Owner 33"))
    with pytest.raises(ValueError, match="other settings; changed: other data"):
        retriever.main(settings)


@pytest.mark.parametrize("loss", ["kl_regularized", pytest.param("reverse_kl", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_main_trains_both_encoders_of_a_model(settings, loss, tiny_encoder, tmp_path):
    folder = make_two_encoders(tiny_encoder, tmp_path / "two")
    retriever.main([*settings, "--model", str(folder), "--loss", loss])
    before, after = (SentenceTransformer(str(path), device="cpu") for path in (folder, tmp_path / "run" / "model"))
    assert (after.similarity_fn_name, after.prompts) == (before.similarity_fn_name, before.prompts)
    for encode in ("encode_query", "encode_document"):
        old, new = (getattr(model, encode)(["who keeps the ferry?"]) for model in (before, after))
        assert not np.allclose(old, new, atol=1e-4)


@pytest.mark.slow
def test_main_on_two_processes_learns_as_on_one(settings, lane_questions, tmp_path, tiny_encoder, monkeypatch):
    monkeypatch.setattr(run, "RESOLUTION", 1e-9)  # all questions of the tiny reader are learned

    still = without_dropout(tiny_encoder, tmp_path / "still")
    split = read_questions(RetrieverConfig(input=str(lane_questions), test_share=0.25))
    # 16 are one batch, or half a batch of each process
    wanted = {query.id for query in [*split.train[:16], *split.dev, *split.test]}
    write_rows(lane_questions, [row for row in read_lines(lane_questions) if row["id"] in wanted])
    settings += ["--max_steps", "3", "--eval_strategy", "no", "--model", str(still), "--loss", "reverse_kl"]
    assert retriever.main([*settings, "--per_device_train_batch_size", "16"]) == 0
    settings[settings.index("--output_dir") + 1] = str(tmp_path / "two")
    launch(partial(retriever.main, [*settings, "--per_device_train_batch_size", "8"]), tmp_path)
    one, two = (sorted((tmp_path / name / "labels.jsonl").read_text().splitlines()) for name in ("run", "two"))
    assert one == two
    runs = [results_of(tmp_path / name) for name in ("run", "two")]
    first, other = ([row["loss"] for row in run["rounds"][0]["log"] if "loss" in row] for run in runs)
    assert len(first) == len(other) == 3
    assert other == pytest.approx(first, rel=1e-3)
    assert first[2] < first[0]
    assert runs[0]["after"] == runs[1]["after"]


def test_candidates_keep_marks_and_own_passages(tiny_encoder):
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
    finds.asked.clear()
    (hops,) = candidates([Query("q", "Who?", ("Ann",))], finds, 2, keep_own=False, hops=2)
    assert [passage.id for passage in hops.passages] == ["b", "a"]
    assert [questions for questions, _ in finds.asked] == [["Who?"], ["Who? [SEP] Sheep."]]


def test_label_leaves_out_a_question_without_a_number(tmp_path, capsys):
    class Broken(PassageLabeler):
        name = "broken"

        def label(self, query):
            return LabeledQuery(query, (math.nan if query.id == "b" else 1 / 3,), (0.1,))

    queries = [Query(name, "Who?", ("Ann",), (Passage("x", id="1"),)) for name in "abc"]
    found, column = label(Broken(), [*queries, Query("none", "Who?", ("Ann",))], None, tmp_path / "labels.jsonl")
    assert column == "broken"
    assert [(row.query, row.labels) for row in found] == [(queries[at], (0.333333,)) for at in (0, 2)]
    assert [row["id"] for row in read_lines(tmp_path / "labels.jsonl")] == ["a", "c"]
    assert "question id='b' left out: the labeler returned nan" in capsys.readouterr().err


def test_read_questions_splits_by_id(lane_questions):
    config = RetrieverConfig(input=str(lane_questions), test_share=0.25, dev_share=0.25)
    split = read_questions(config)
    ids = [{query.id for query in rows} for rows in (split.train, split.dev, split.test)]
    assert sum(map(len, ids)) == len(set.union(*ids)) == 24
    assert read_questions(replace(config, test_share=0.5, dev_share=0.0)).dev == []
    assert ids[2] < {query.id for query in read_questions(replace(config, test_share=0.5, dev_share=0.0)).test}
    assert len(split.corpus) == 60
    with pytest.raises(ValueError, match="for dev, got none of 2; give more questions, or set dev_share to 0"):
        read_questions(replace(config, limit=2, dev_share=0.01))


def test_read_questions_puts_a_cluster_where_its_smallest_id_belongs(tmp_path):
    texts = {"q26": ["Ann.", "Sheep."], "q3": ["Fog."], "q1": ["Sheep.", "Bob."], "q4": ["Tar."]}
    rows = [{"id": name, "question": name, "answers": ["Ann"], "passages": own} for name, own in texts.items()]
    path = str(write_rows(tmp_path / "questions.jsonl", rows))

    def ids(**options):
        splits = read_questions(RetrieverConfig(input=path, **options))[1:]
        return [[query.id for query in split] for split in splits]

    assert ids() == [["q3", "q4"], ["q26"], ["q1"]]
    assert ids(split_by="passage", dev_share=0.0) == [["q3", "q4"], [], ["q26", "q1"]]
    # one cluster of all questions is not divided
    rows = [{**row, "passages": ["All."]} for row in rows]
    config = RetrieverConfig(input=str(write_rows(tmp_path / "all.jsonl", rows)), dev_share=0.0)
    assert read_questions(config).test
    with pytest.raises(ValueError, match=r"got none of 4; 4 of them are one cluster by passage, which is not divided"):
        read_questions(replace(config, split_by="passage"))


def test_teacher_rows_leave_out_chance_and_shrink_the_rest(capsys, monkeypatch):
    monkeypatch.setattr(run, "RESOLUTION", 1e-9)
    # mean squared error .02 without the baseline's, so that p = exp(-.14 / .04) = .03, and 5 / 7 of the spread is real
    row = judged([0.5, 0.1, 0.0], [math.hypot(own, 0.3) for own in (0.1, 0.2, 0.1)], baseline_error=0.3)
    chance = judged([0.5, 0.1, 0.0], [0.3, 0.3, 0.3])
    (taught,) = run.teacher_rows([row, chance], RetrieverConfig())
    assert taught["labels"] == pytest.approx([0.2 + 0.3 * 5 / 7, 0.2 - 0.1 * 5 / 7, 0.2 - 0.2 * 5 / 7])
    assert "1 of 2 questions have labels to learn from" in capsys.readouterr().err
    as_they_are = RetrieverConfig(heterogeneity=1.0, shrink=False)
    assert [each["labels"] for each in run.teacher_rows([row, chance], as_they_are)] == [pytest.approx(row.labels)] * 2
    with pytest.raises(ValueError, match=r"\(heterogeneity=0\.1\) and by more than min_spread=0\.4, got none of 1"):
        run.teacher_rows([row], RetrieverConfig(min_spread=0.4))  # .357 of the spread of .5 is left
    # the best and the worst of four differ by chance more than two would: p = .13, and .02 without those between
    four = judged([0.5, 0.25, 0.25, 0.0], [0.15] * 4)
    with pytest.raises(ValueError, match="got none of 1"):
        run.teacher_rows([four], RetrieverConfig(list_size=2))
    assert run.teacher_rows([four.keep([0, 3])], RetrieverConfig(list_size=2))


def test_teacher_rows_are_rounded():
    (taught,) = run.teacher_rows([judged([0.44, -0.32, 0.02], [0.1] * 3)], RetrieverConfig())
    assert taught["labels"] == pytest.approx([0.4, -0.3, 0.0])
    as_they_are = RetrieverConfig(heterogeneity=1.0, shrink=False)
    with pytest.raises(ValueError, match="got none of 1"):  # equal after rounding
        run.teacher_rows([judged([0.44, 0.36, 0.4], [0.1] * 3)], as_they_are)


def test_leads_are_of_questions_that_both_rankings_have():
    before = {"mrr": [0.1, 0.5, None, 0.3], "seper@1": [None, 0.1, 0.2, 0.3]}
    found = leads({"mrr": [0.9, 0.6, 0.1, None], "seper@1": [0.4, None, None, None]}, before)
    assert found["mrr"].value == pytest.approx((0.8 + 0.1) / 2)
    assert found["mrr"].interval == pytest.approx([0.1, 0.8])
    assert found["seper@1"].value is None


def test_load_encoder_refuses_more_tokens_than_positions(tiny_encoder):
    assert load_encoder(str(tiny_encoder), 100).max_seq_length == 100
    with pytest.raises(ValueError, match=r"max_seq_length must be at most 128, the positions of .*, got 300"):
        load_encoder(str(tiny_encoder), 300)


def test_teacher_rows_have_texts_as_the_reader_sees_them():
    query = Query("q", "Who?", ("Ann",), (Passage("Ann owns it.", "Mill", "1"), Passage("Sheep.", id="2")))
    row = LabeledQuery(query, (0.5, 0.0), (0.1, 0.1))
    rows = run.teacher_rows([row], RetrieverConfig())
    assert rows == [{"query": "Who?", "passages": ["Mill: Ann owns it.", "Sheep."], "labels": [0.5, 0.0]}]


def test_the_temperature_of_labels_is_relative_to_their_deviations():
    config, labels = RetrieverConfig(teacher_temperature=2.0), [(0.0, 1.0), (3.0, 3.0, 6.0, 6.0)]
    rows, scaled = ([{"labels": [times * one for one in row]} for row in labels] for times in (1, 10))
    assert run.label_temperature(rows, config) == 2.0  # deviations .5 and 1.5
    assert run.label_temperature(scaled, config) == 20.0


def test_teacher_rows_of_two_hops(capsys):
    labeled = two_hops()
    paths = {"sets": "conditional", "learn_from": "paths", "shrink": False}
    rows = run.teacher_rows([labeled], RetrieverConfig(**paths))
    asked = "Where was the owner of the mill born? [SEP] The mill is Ida's."
    assert [row["query"] for row in rows] == [labeled.query.question, asked]
    assert [row["labels"] for row in rows] == [
        pytest.approx([1.0, 1.0, 0.5, 0.0]), pytest.approx([0.5, 0.0, -0.6])
    ]  # fmt: skip
    # beside the second passage a single one was measured, which has no other to be better than
    assert "2 of 3 questions by hop have labels to learn from" in capsys.readouterr().err
    # a filter takes a hop, not the question: labels spread by 1 and by 1.1
    config = RetrieverConfig(**paths, min_spread=1.05)
    assert [row["query"] for row in run.teacher_rows([labeled], config)] == [asked]


def test_train_once_on_paths_learns_a_second_hop(tmp_path, tiny_encoder):
    """Trained on both hops, the model finds the second passage once it has read the first; on one, it does not."""
    labeled = two_hops()
    corpus = {passage.id: passage for passage in labeled.query.passages}

    def found(learn_from, hops):
        model = SentenceTransformer(str(tiny_encoder), device="cpu")
        sets = "none" if learn_from == "singles" else "conditional"
        config = RetrieverConfig(sets=sets, learn_from=learn_from, shrink=False, teacher_temperature=0.2)
        arguments = retriever.RetrieverArguments(
            output_dir=str(tmp_path / learn_from), learning_rate=2e-3, max_steps=60, save_strategy="no",
            eval_strategy="no", bf16=False, disable_tqdm=True, lr_scheduler_type="constant", seed=1,
        )  # fmt: skip
        retriever.train_once(model, run.teacher_rows([labeled], config), config, arguments)
        by_model = DenseRetriever(model, corpus)
        return [[each.id for each in rank_by(by_model, [labeled.query], hops=count)[0]] for count in hops]

    one, two = found("paths", (1, 2))
    assert set(two[:2]) == {"0", "1"}  # the first list has equal labels for both
    one, two = found("singles", (1, 2))
    assert one[:2] == two[:2] == ["0", "2"]
