"""Which labels train the better retriever? Trainings of the question's side alone, or of all weights.

    python -m tests.benchmarks.experiments.pooled runs/pooled
    python -m tests.benchmarks.experiments.query_side candidates --folder runs/pooled
    seper-reward label --input runs/pooled/candidates.jsonl --max_passage_tokens 128 --output_dir runs/pooled/labels \
        --cache runs/pooled/cache.sqlite
    python -m tests.benchmarks.experiments.query_side train --folder runs/pooled
    python -m tests.benchmarks.experiments.query_side table --folder runs/pooled    # --over FOLDER: leads over others

With ``--weights question`` the vectors of the passages stay as they are, as with an index that cannot be made again,
and all weights of the question's encoder learn from the labels of its first passages in the whole corpus (query-side
fine-tuning; Izacard et al., arXiv:2208.03299, section 3.4). So a training takes seconds, and the corpus is embedded
once. With ``--weights all`` questions and passages have one encoder, as in ``train retriever``, and each training
embeds the corpus again. With ``--rounds 2`` the embedded reader labels the first passages of the trained retriever,
which then learns from these; responses to passages that were labelled before come from ``cache.sqlite`` in the folder.

Labelled and trained on are one half of PopQA's questions, and those of HotpotQA and 2Wiki in the dev and test splits,
since the embedded reader was trained on the others. Tested are all other questions of these sets, and NQ's test
questions, since none of NQ is trained on.
Each finished training is a file, so the same command resumes.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha1
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch.nn.functional import normalize
from transformers import get_linear_schedule_with_warmup

from seper_reward.commands import label
from seper_reward.data.answers import holds_answer
from seper_reward.data.marks import relevance_of
from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.data.splits import split_of
from seper_reward.evaluate.rankings import gold_relevance, rank_values
from seper_reward.labels.rows import DELTA_SEPER, SUFFIXES, labeled_queries, read_label_rows
from seper_reward.options import LabelOptions
from seper_reward.reports.tables import markdown_table
from seper_reward.retrieval import BM25Retriever, next_query
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.runtime.json_files import read_json, write_json, write_lines
from seper_reward.runtime.pretrained import fast_dtype
from seper_reward.statistics import Statistic, rounded
from seper_reward.types import LabeledQuery, Passage, Query
from tests.benchmarks.experiments.seeds import interval_over_questions_and_seeds
from trainers.models import load_encoder
from trainers.options import RetrieverConfig
from trainers.ranking.losses import kl_regularized
from trainers.ranking.run import label_temperature, teacher_rows
from trainers.retriever import RetrieverArguments, train_once

TOP = 8  # candidates of a question
TOKENS = 128  # of a passage, for the retriever
DEPTH = 20  # passages per question in a ranking
SEEDS = (0, 1, 2)
LABELS = ("seper_gain", "likelihood", "contains x bm25", "human labels", "delta_seper", "question_gain", "bm25")
UNTRAINED = "untrained"
SEPARATOR = next_query("", [Passage("")])  # before what a second search has read
EPOCHS, BATCH, RATE = 4, 16, 5e-5
MEASURES = {"recall@1": "R@1", "recall@5": "R@5", "recall@20": "R@20", "ndcg@10": "nDCG@10"}
ANSWERS = ("seper@", "exact_match@")  # of a reader with the first passages, which ``answers`` adds
THREE = "all three"  # sets
LEARNT = ("popqa", "hotpotqa_distractor", "2wikimultihopqa")


class Frame:
    """The questions with their marks, the corpus, and its vectors by the untrained retriever."""

    def __init__(self, folder: Path) -> None:
        self.corpus = read_corpus(folder / "corpus.jsonl")
        self.queries = list(read_queries(folder / "questions.jsonl", self.corpus).queries)
        self.passages = list(self.corpus.values())
        self._folder = folder

    @cached_property
    def vectors(self) -> torch.Tensor:
        """Unit vectors of the passages, (N, D)."""
        texts = [passage.full_text for passage in self.passages]
        embedded = Embedder(load_encoder("embedded", TOKENS)).passages(texts, self._folder / "embeddings")
        return torch.from_numpy(embedded)

    @cached_property
    def bm25(self) -> BM25Retriever:
        """Index of the corpus."""
        return BM25Retriever(self.corpus)

    @cached_property
    def places(self) -> dict[str, int]:
        """Places of the passages by text."""
        return {passage.full_text: place for place, passage in enumerate(self.passages)}

    @cached_property
    def places_read(self) -> dict[str, int]:
        """Places of the passages by the end of the query of a second search that has read them."""
        return {next_query("", [passage]): place for place, passage in enumerate(self.passages)}

    def embedded(self, model: SentenceTransformer) -> torch.Tensor:
        """Return unit vectors of the passages by another model, (N, D)."""
        return torch.from_numpy(Embedder(model).passages([passage.full_text for passage in self.passages], None))

    def rank(
        self, model: SentenceTransformer, questions: Sequence[str], top: int, vectors: torch.Tensor | None = None
    ) -> list[tuple[Passage, ...]]:
        """Return each question's best passages, best first, by the passages' vectors: the untrained, or these."""
        passages = self.vectors if vectors is None else vectors
        scores = torch.from_numpy(Embedder(model).questions(list(questions))) @ passages.T
        return [
            tuple(self.passages[place] for place in row)
            for row in scores.topk(min(top, len(self.passages))).indices.tolist()
        ]


def may_teach(query: Query) -> bool:
    """Return whether a question may be labelled and trained on."""
    match query.metadata["set"]:
        case "popqa":
            return split_of(query.id, test_share=0.5, dev_share=0.0) == "train"
        case "nq_oracle_bm25neg":
            return False
        case _:
            return split_of(query.id) != "train"


def may_test(query: Query) -> bool:
    """Return whether a question that was not trained on is tested."""
    return query.metadata["set"] in LEARNT or split_of(query.id) == "test"


def candidates(
    frame: Frame, model: SentenceTransformer, vectors: torch.Tensor | None = None, sets: Sequence[str] = LEARNT
) -> list[dict[str, object]]:
    """Return the questions of these sets to label, with the first passages by a retriever."""
    chosen = spread_by_id([query for query in frame.queries if may_teach(query) and query.metadata["set"] in sets])
    first = frame.rank(model, [query.question for query in chosen], TOP, vectors)
    return [candidate_row(query, passages) for query, passages in zip(chosen, first, strict=True)]


def spread_by_id(queries: Sequence[Query]) -> list[Query]:
    """Return the queries in an order that does not depend on their sets."""
    return sorted(queries, key=lambda query: sha1(query.id.encode()).hexdigest()[::-1])


def candidate_row(query: Query, passages: Sequence[Passage]) -> dict[str, object]:
    """Return the row of a question to label, with its set and human labels of the passages."""
    gold = gold_relevance(query)
    marked = [
        {"id": one.id, "title": one.title, "text": one.text, "relevant": gold.get(one.id, 0) > 0} for one in passages
    ]
    answers, of_set = list(query.answers), query.metadata["set"]
    return {"id": query.id, "question": query.question, "answers": answers, "set": of_set, "passages": marked}


def targets(frame: Frame, folder: Path, name: str) -> list[LabeledQuery]:
    """Return the questions to train on with the labels of this name; those by BM25 are at most 1 in a question."""
    if name in SUFFIXES:
        return labeled_queries(read_label_rows(folder / "labels"), name)
    if name == "likelihood":
        rows = labeled_queries(read_label_rows(folder / "labels"), DELTA_SEPER)
        bare = [row.baseline["answer_log_prob"] for row in rows]
        gains = [[read["answer_log_prob"] - one for read in row.details] for row, one in zip(rows, bare, strict=True)]
        return [_exact(row.query, labels) for row, labels in zip(rows, gains, strict=True)]
    if name == "human labels":
        return [_exact(query, [float(mark) for mark in relevance_of(query)]) for query in taught(folder)]
    labeled = []
    for query in taught(folder):
        texts, scores = [passage.full_text for passage in query.passages], frame.bm25.scores(query.question)
        match = [scores[frame.places[text]] * (name == "bm25" or holds_answer(text, query.answers)) for text in texts]
        labeled.append(_exact(query, [score / max(*match, 1e-9) for score in match]))
    return labeled


def taught(folder: Path) -> list[Query]:
    """Return the questions to train on with their candidates."""
    return list(read_queries(folder / "candidates.jsonl").queries)


def targets_anew(frame: Frame, folder: Path, name: str, rows: Sequence[Mapping[str, object]]) -> list[LabeledQuery]:
    """Return ``targets`` of other candidates; the embedded reader labels them, with the cache in the folder."""
    with tempfile.TemporaryDirectory() as temporary:
        file, labels, cache = Path(temporary, "candidates.jsonl"), Path(temporary, "labels"), folder / "cache.sqlite"
        write_lines(file, rows)
        if name in (*SUFFIXES, "likelihood"):
            label.command(
                LabelOptions(input=str(file), output_dir=str(labels), cache=str(cache), max_passage_tokens=TOKENS)
            )
        return targets(frame, Path(temporary), name)


def _exact(query: Query, labels: Sequence[float]) -> LabeledQuery:
    return LabeledQuery(query, tuple(labels), (0.0,) * len(labels))


def train(
    model: SentenceTransformer,
    frame: Frame,
    rows: Sequence[Mapping[str, Any]],
    temperature: float,
    seed: int,
    rate: float = RATE,
) -> None:
    """Train the question's side of a retriever on ``teacher_rows`` in place; the passages' vectors stay.

    The loss is ``kl_regularized`` over the whole corpus.
    """
    torch.manual_seed(seed)
    before = torch.from_numpy(Embedder(model).questions([row["query"] for row in rows])) @ frame.vectors.T
    labels = torch.zeros_like(before)
    for target, row in zip(labels, rows, strict=True):
        target[[frame.places[text] for text in row["passages"]]] = torch.tensor(row["labels"]) / temperature
        if (read := row["query"].find(SEPARATOR)) > 0:
            target[frame.places_read[row["query"][read:]]] = math.nan  # a second search does not return it
    steps = EPOCHS * math.ceil(len(rows) / BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    dtype = fast_dtype(model.device)
    model.train()
    for _ in range(EPOCHS):
        for chosen in torch.split(torch.randperm(len(rows)), BATCH):
            features = model.preprocess([rows[place]["query"] for place in chosen])
            with torch.autocast(model.device.type, dtype, enabled=dtype != torch.float32):
                embedded = model(features)["sentence_embedding"].float()
            vectors = normalize(embedded, dim=-1)
            loss = kl_regularized(vectors @ frame.vectors.T, labels[chosen], before[chosen])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    model.eval()


def learn(
    model: SentenceTransformer,
    frame: Frame,
    rows: list[dict[str, Any]],
    config: RetrieverConfig,
    weights: str,
    seed: int,
) -> torch.Tensor:
    """Train the question's side of a retriever or all its weights in place; return the passages' vectors."""
    if weights == "question":
        train(model, frame, rows, label_temperature(rows, config), seed)
        return frame.vectors
    with tempfile.TemporaryDirectory() as checkpoints:
        arguments = RetrieverArguments(
            output_dir=checkpoints, seed=seed, learning_rate=RATE, num_train_epochs=2, per_device_train_batch_size=8,
            save_strategy="no",
        )  # fmt: skip
        train_once(model, rows, config, arguments)
    model.eval()
    return frame.embedded(model)


def measured(
    rankings: Sequence[Sequence[Passage]], queries: Sequence[Query], measures: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return each question's id, set, measures by human labels, and the ids of its best passages."""
    values = rank_values(rankings, [gold_relevance(query) for query in queries], measures)
    return [
        {"id": query.id, "set": query.metadata["set"], **(marks or {}), "passages": [one.id for one in passages]}
        for query, marks, passages in zip(queries, values, rankings, strict=True)
    ]


def train_all(
    frame: Frame,
    folder: Path,
    trained: Path,
    names: Sequence[str],
    config: RetrieverConfig,
    sets: Sequence[str] = LEARNT,
    weights: str = "question",
) -> None:
    """Train on questions of these sets, and measure the retriever of each label and seed that ``trained`` lacks."""
    learnt = {query.id for query in taught(folder) if query.metadata["set"] in sets}
    tested = [query for query in frame.queries if may_test(query) and query.id not in learnt]
    for name, seed, path in unfinished(trained, names):
        began, model, rows, vectors = time.perf_counter(), load_encoder("embedded", TOKENS), [], frame.vectors
        for number in range(0 if name == UNTRAINED else config.rounds):
            if number == 0:
                labeled = [row for row in targets(frame, folder, name) if row.query.id in learnt]
            else:
                labeled = targets_anew(frame, folder, name, candidates(frame, model, vectors, sets))
            rows = teacher_rows(labeled, config)
            vectors = learn(model, frame, rows, config, weights, seed)
        seconds = round(time.perf_counter() - began, 1)
        rankings = frame.rank(model, [query.question for query in tested], DEPTH, vectors)
        questions = measured(rankings, tested, MEASURES)
        write_json(path, {"rows": len(rows), "seconds": seconds, "questions": questions})
        print(f"{path.stem}: {seconds} s", flush=True)


def unfinished(
    trained: Path, names: Sequence[str], untrained: Sequence[str] = (UNTRAINED,)
) -> Iterator[tuple[str, int, Path]]:
    """Return label, seed and file of each training that the folder lacks; of models without training, one seed."""
    trained.mkdir(exist_ok=True)
    for seed, name in [*product((0,), untrained), *product(SEEDS, names)]:
        if not (path := trained / f"{name}-{seed}.json").is_file():
            yield name, seed, path


def table(trained: Path, measured_by: Iterable[str] = MEASURES, main: str = "ndcg@10", first: str = LABELS[0]) -> str:
    """Return Markdown: the measures by label and set, and the leads of the first label by measure and by set.

    One column has the questions whose first passage by the untrained retriever is irrelevant.
    """
    values, questions = trained_values(trained, (*LABELS, UNTRAINED), measured_by)
    chosen, shown = columns(values, questions), list(values[first])
    header, by_measure, by_set = headings(chosen), [], []
    for name, measures in values.items():
        if name != first:
            of_measures, of_columns = _leads(values[first], measures, shown, chosen, main)
            by_measure.append([name, *of_measures])
            by_set.append([name, *of_columns])
    return "\n\n".join(
        [
            markdown_table([" / ".join(shown), *header], [[name, *means(values[name], chosen)] for name in values]),
            markdown_table([f"lead of {first}, {header[0]}", *shown], by_measure),
            markdown_table([f"lead of {first} in {main}", *header], by_set),
        ]
    )


def leads_over(trained: Path, other: Path, measured_by: Iterable[str] = MEASURES, main: str = "ndcg@10") -> str:
    """Return Markdown: by how much trainings are ahead of those of the same labels in another folder."""
    values, questions = trained_values(trained, (*LABELS, UNTRAINED), measured_by)
    others, same = trained_values(other, (*LABELS, UNTRAINED), measured_by)
    if questions != same:
        raise ValueError(f"expected the same questions in {trained} and {other}, got {len(questions)} and {len(same)}")
    chosen = columns(values, questions)
    shown = [key for key in values[UNTRAINED] if key in others[UNTRAINED] and key != main]
    lines = []
    for name in LABELS:
        if name in values and name in others:
            of_measures, of_columns = _leads(values[name], others[name], shown, chosen, main)
            lines.append([name, *of_measures, *of_columns])
    heads = [f"{key}, {THREE}" for key in shown] + [f"{main}, {head}" for head in headings(chosen)]
    return markdown_table([f"lead over {other.name}", *heads], lines)


def columns(
    values: Mapping[str, Mapping[str, np.ndarray]], questions: Sequence[tuple[str, str]]
) -> dict[str, np.ndarray]:
    """Return the places of the questions in each column of a table."""
    sets = np.array([of_set for _, of_set in questions])
    three = np.isin(sets, LEARNT)
    chosen = {THREE: three, "first passage irrelevant": three & (values[UNTRAINED]["recall@1"] == 0)}
    return chosen | {name: sets == name for name in dict.fromkeys(sets.tolist())}


def headings(chosen: Mapping[str, np.ndarray]) -> list[str]:
    """Return the names of the columns with their numbers of questions."""
    return [f"{name} (n={int(places.sum())})" for name, places in chosen.items()]


def means(measures: Mapping[str, np.ndarray], chosen: Mapping[str, np.ndarray]) -> list[str]:
    """Return the means of all measures in each column."""
    return [
        " / ".join(f"{numbers[..., places].mean():.3f}" for numbers in measures.values()) for places in chosen.values()
    ]


def _leads(
    one: Mapping[str, np.ndarray],
    two: Mapping[str, np.ndarray],
    shown: Iterable[str],
    chosen: Mapping[str, np.ndarray],
    main: str,
) -> tuple[list[str], list[str]]:
    """Return the leads of the first over the second: by measure in all three sets, and in ``main`` by column."""
    three = chosen[THREE]
    by_measure = [lead(one[key][..., three], two[key][..., three]) for key in shown]
    return by_measure, [lead(one[main][..., places], two[main][..., places]) for places in chosen.values()]


def lead(one: np.ndarray, two: np.ndarray) -> str:
    """Return by how much the mean of the first is above that of the second, with its interval."""
    return str(Statistic(rounded(float(one.mean() - two.mean())), interval_over_questions_and_seeds(one, two)))


def trained_values(
    folder: Path, names: Sequence[str], measured_by: Iterable[str]
) -> tuple[dict[str, dict[str, np.ndarray]], list[tuple[str, str]]]:
    """Return each label's measures, (S, Q), of a retriever without seeds (Q,), and ids and sets of the questions.

    To the measures come those of ``answers``. Measures that a question lacks in any training are left out.
    """
    runs = {name: [read_json(path)["questions"] for path in sorted(folder.glob(f"{name}-*.json"))] for name in names}
    trainings = [run for of_label in runs.values() for run in of_label]
    answers = [key for key in trainings[0][0] if key.startswith(ANSWERS)]
    shared = [key for key in (*measured_by, *answers) if all(key in question for run in trainings for question in run)]
    values = {}
    for name, of_label in runs.items():
        seeds = slice(None) if len(of_label) > 1 else 0
        if of_label:
            values[name] = {
                key: np.array([[question[key] for question in run] for run in of_label])[seeds] for key in shared
            }
    return values, [(question["id"], question["set"]) for question in trainings[0]]


def main(argv: Sequence[str] | None = None) -> None:
    """Do what the first word names."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("act", choices=["candidates", "train", "table"])
    made.add_argument("--folder", type=Path, default=Path("runs/pooled"))
    made.add_argument("--labels", nargs="+", choices=LABELS, default=LABELS, help="labels to train on")
    made.add_argument("--trained", default="trained", help="folder of the trainings, in --folder")
    made.add_argument("--weights", choices=["question", "all"], default="question", help="weights to train")
    made.add_argument("--rounds", type=int, default=1, help="rounds of labels and training")
    made.add_argument("--loss", default=RetrieverConfig.loss, help="as of train retriever, with --weights all")
    made.add_argument("--sets", nargs="+", choices=LEARNT, default=LEARNT, help="sets to train on")
    made.add_argument("--over", help="folder of other trainings, in --folder: the table has the leads over them")
    made.add_argument("--measure", default="ndcg@10", help="measure of the leads by set in the table")
    words = made.parse_args(argv)
    trained = words.folder / words.trained
    match words.act:
        case "candidates":
            rows = candidates(Frame(words.folder), load_encoder("embedded", TOKENS))
            write_lines(words.folder / "candidates.jsonl", rows)
        case "train":
            config, frame = RetrieverConfig(loss=words.loss, rounds=words.rounds), Frame(words.folder)
            train_all(frame, words.folder, trained, words.labels, config, words.sets, words.weights)
        case _ if words.over:
            print(leads_over(trained, words.folder / words.over, main=words.measure))
        case _:
            print(table(trained, main=words.measure))


if __name__ == "__main__":
    main()
