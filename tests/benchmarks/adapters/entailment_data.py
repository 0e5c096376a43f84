"""Training data of the entailment adapter that ships: pairs of premise and hypothesis whose licences allow it.

python -m tests.benchmarks.adapters.entailment_data --seed 10 > runs/pairs-first.jsonl
seper-reward train entailment --config tests/benchmarks/adapters/configs/entailment-first.yaml
"""

import json
import random
import re
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seper_reward.data.rows import read_valid_rows
from seper_reward.data.splits import split_of
from seper_reward.evaluate.judge import EVOUNA_SYSTEMS, aliases_of
from seper_reward.runtime.pretrained import embedded_encoder_folder
from tests.benchmarks.adapters import answer_forms, answer_traps
from tests.benchmarks.adapters.answer_forms import TYPES, Fact, Form, any_of
from tests.benchmarks.adapters.answer_languages import language_forms
from tests.benchmarks.adapters.answer_lexicon import lexicon_forms
from tests.benchmarks.adapters.answer_modifiers import modified_forms
from tests.benchmarks.adapters.answer_order import order_forms
from tests.benchmarks.adapters.answer_second import second_forms
from tests.benchmarks.adapters.answer_spans import Read, span_forms
from tests.benchmarks.adapters.substitution import answer_type, words_of
from tests.benchmarks.common import SHARED
from trainers.entailment import LABELS, NOT_ENTAILMENT, LabeledPair

Row = dict[str, Any]
# NLI sets whose licences allow shipping weights, and most pairs of those that are machine-made or skewed
NLI_SETS = {
    "snli_dev_test": None, "snli_cad": None, "mnli_dev_matched": None, "mnli_mismatched_1k": None,
    "conjnli_human": None, "conjnli_adv_train": 4000, "breaking_nli": 2500, "med": 2500, "help_conj_disj": 1500,
    "negation_nli": None, "fever_symmetric": None,
}  # fmt: skip
_STATEMENTS = ("snli_dev_test", "snli_cad", "mnli_dev_matched")


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a JSON or JSON-lines file."""
    return [dict(row) for _, row in read_valid_rows(path)]


def nli_rows(data_dir: Path, name: str) -> list[Row]:
    """Read the training pairs of one NLI set."""
    return [row for row in read_rows(data_dir / "nli" / f"{name}.jsonl.gz") if row["split"] == "train"]


def evouna_rows(data_dir: Path, split: str) -> list[Row]:
    """Read EVOUNA's rows in one split by question; ``train`` leaves out questions of NQ's dev and test (``qa/``)."""
    rows = [row for row in read_rows(data_dir / "evouna" / "NQ.json.gz") if not row["improper"]]
    held_out: set[str] = set()
    if split == "train":
        qa = read_rows(data_dir / "qa" / "nq_oracle_bm25neg.jsonl.gz")
        held_out = {row["question"].lower() for row in qa if split_of(row["id"]) != "train"}
    return [row for row in rows if split_of(row["question"]) == split and row["question"].lower() not in held_out]


def common_facts() -> list[Row]:
    """Read our common facts, ``{question, answers}``."""
    return read_rows(Path(__file__).with_name("common_facts.jsonl"))


def nq_rows(data_dir: Path) -> list[Row]:
    """Read NQ's train questions that EVOUNA does not hold out: it splits by question rather than by id."""
    held_out = {row["question"].lower() for split in ("dev", "test") for row in evouna_rows(data_dir, split)}
    rows = read_rows(data_dir / "qa" / "nq_oracle_bm25neg.jsonl.gz")
    return [row for row in rows if split_of(row["id"]) == "train" and row["question"].lower() not in held_out]


def judged_pairs(rows: list[Row]) -> Iterator[LabeledPair]:
    """Yield (response, gold answer) with the human verdict; for short responses also (gold answer, response)."""
    for row in rows:
        gold = aliases_of(row)[0]
        for system in EVOUNA_SYSTEMS:
            response, verdict = row[f"answer_{system}"], row[f"judge_{system}"]
            if not response or verdict is None:
                continue
            label = LABELS["entailment"] if verdict else NOT_ENTAILMENT
            yield LabeledPair(response, gold, label, f"evouna_{system}", row["question"])
            if len(response.split()) <= 8:  # a long response says more than the gold answer, which cannot entail it
                yield LabeledPair(gold, response, label, f"evouna_{system}", row["question"])


def swapped_pairs(rows: list[Row], rng: random.Random) -> Iterator[LabeledPair]:
    """Yield pairs of aliases of one answer (entailed), and of answers of one type to two questions (not entailed)."""
    by_type: dict[str, list[str]] = {}
    for row in rows:
        for alias in aliases_of(row):
            by_type.setdefault(answer_type(alias), []).append(alias)
    for row in rows:
        question, aliases = row["question"], aliases_of(row)
        for alias in aliases[1:4]:
            yield LabeledPair(alias, aliases[0], LABELS["entailment"], "evouna_alias", question)
        wrong = rng.choice(by_type[answer_type(aliases[0])])
        if words_of(" ".join(aliases)).isdisjoint(words_of(wrong)):
            yield _wrong(wrong, aliases[0], "evouna_swap", question, rng)


def mined_pairs(rows: list[Row], rng: random.Random) -> Iterator[LabeledPair]:
    """Yield answers with another question's answer that MiniLM finds similar (Lyon for Paris): not entailed."""
    from sentence_transformers import SentenceTransformer, util

    encoder = SentenceTransformer(str(embedded_encoder_folder()), device="cpu")
    answers = sorted({aliases_of(row)[0] for row in rows})
    embeddings = encoder.encode(answers, convert_to_tensor=True, show_progress_bar=False)
    near = dict(zip(answers, util.semantic_search(embeddings, embeddings, top_k=20), strict=True))
    for row in rows:
        gold, own = aliases_of(row)[0], words_of(" ".join(aliases_of(row)))
        others = [answers[int(hit["corpus_id"])] for hit in near[gold]]
        others = [other for other in others if own.isdisjoint(words_of(other))]
        for other in rng.sample(others, min(3, len(others))):
            yield _wrong(other, gold, "evouna_mined", row["question"], rng)


def _wrong(one: str, other: str, source: str, question: str, rng: random.Random) -> LabeledPair:
    pair = [one, other]
    rng.shuffle(pair)
    return LabeledPair(pair[0], pair[1], NOT_ENTAILMENT, source, question)


def form_pairs(facts: Sequence[Fact], data_dir: Path, rng: random.Random) -> Iterator[Form]:
    """Yield generated forms of answers, which EVOUNA and NLI sets rarely have."""
    statements = [
        (row["premise"], row["hypothesis"], row["label"]) for name in _STATEMENTS for row in nli_rows(data_dir, name)
    ]
    yield from answer_forms.stated_forms(facts, 9000, rng)
    yield from answer_forms.list_forms(facts, 3000, rng)
    yield from answer_forms.number_forms(5000, rng)
    yield from answer_forms.date_forms(5000, rng)
    yield from answer_forms.yes_no_forms(statements, 6000, rng)
    yield from answer_forms.paragraph_forms(paragraphs(data_dir, rng), 4000, rng)


def trap_forms(facts: Sequence[Fact], data_dir: Path, count: int, rng: random.Random) -> Iterator[Form]:
    """Yield about ``count`` texts that state nothing, or are long and do state the answer."""
    passages = [  # of other questions
        passage["text"]
        for row in nq_rows(data_dir)
        for passage in row["passages"]
        if not passage["relevant"] and not any_of(row["answers"]).search(passage["text"])
    ]
    yield from answer_traps.prose_forms(facts, passages, count * 9 // 32, rng)
    yield from answer_traps.gibberish_forms(facts, passages, count * 6 // 32, rng)
    yield from answer_traps.echo_forms(facts, count * 7 // 32, rng)
    yield from answer_traps.shotgun_forms(facts, count * 5 // 32, rng)
    yield from answer_traps.denied_forms(facts, count * 5 // 32, rng)


def labeled(forms: Iterable[Form], source: str) -> Iterator[LabeledPair]:
    """Yield forms as training pairs."""
    for question, response, answer, entailed in forms:
        yield LabeledPair(response, answer, LABELS["entailment"] if entailed else NOT_ENTAILMENT, source, question)


def read_questions(data_dir: Path) -> list[Read]:
    """Return the train questions of NQ and PopQA with each of their passages."""
    rows = nq_rows(data_dir)
    rows += [row for row in read_rows(data_dir / "qa" / "popqa.jsonl.gz") if split_of(row["id"]) == "train"]
    wrong = wrong_answers([(row["question"], row["answers"]) for row in rows])
    return [
        Read(row["question"], row["answers"], others, passage["text"])
        for row, others in zip(rows, wrong, strict=True)
        for passage in row["passages"]
        if passage["text"].strip()
    ]


def training_facts(data_dir: Path) -> list[Fact]:
    """Return EVOUNA's training questions, our common facts and the questions of ``TYPES``, with >= 5 wrong answers."""
    known = [(row["question"], tuple(aliases_of(row))) for row in evouna_rows(data_dir, "train")]
    known += [(fact["question"], tuple(fact["answers"])) for fact in common_facts()]
    facts = [Fact(*each, others) for each, others in zip(known, wrong_answers(known), strict=True)]
    for kind in TYPES:
        for question in kind.questions:
            for member in kind.members:
                others = tuple(other[0] for other in kind.members if other != member)
                facts.append(Fact(question, member, others))
    return [fact for fact in facts if len(fact.others) >= 5]


def wrong_answers(known: Sequence[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, ...]]:
    """Yield, per (question, answers), the answers to other questions of its kind that share no word with its own."""
    by_kind: dict[tuple[str, str], set[str]] = {}
    for question, answers in known:
        by_kind.setdefault(_question_kind(question, answers[0]), set()).add(answers[0])
    for question, answers in known:
        own = words_of(" ".join(answers))
        others = by_kind[_question_kind(question, answers[0])]
        yield tuple(sorted(other for other in others if own.isdisjoint(words_of(other))))


def _question_kind(question: str, answer: str) -> tuple[str, str]:
    word = re.search(r"\b(who|when|where|how many|how|which|what)\b", question.lower())
    return (word.group() if word else "", answer_type(answer))


def paragraphs(data_dir: Path, rng: random.Random) -> list[tuple[str, str, list[str], str]]:
    """Return NQ's train questions as (question, gold passage, answers, wrong answer of the same kind), each twice."""
    rows = nq_rows(data_dir)
    examples = []
    wrong = wrong_answers([(row["question"], row["answers"]) for row in rows])
    for row, others in zip(rows, wrong, strict=True):
        gold = next(passage["text"] for passage in row["passages"] if passage["relevant"])
        examples += [(row["question"], gold, row["answers"], rng.choice(others)) for _ in range(2) if others]
    return examples


def training_pairs(data_dir: Path, seed: int, counts: Mapping[str, int]) -> list[LabeledPair]:
    """Return the training pairs in random order, with so many generated ones by kind."""
    rng = random.Random(seed)
    pairs: list[LabeledPair] = []
    for name, most in NLI_SETS.items():
        nli = [
            LabeledPair(row["premise"], row["hypothesis"], LABELS[row["label"]], name)
            for row in nli_rows(data_dir, name)
        ]
        pairs += rng.sample(nli, min(len(nli), most or len(nli)) // 3)
    rows, facts = evouna_rows(data_dir, "train"), training_facts(data_dir)
    pairs += [*list(judged_pairs(rows)) * counts["judged"], *swapped_pairs(rows, rng), *mined_pairs(rows, rng)]
    pairs += labeled(answer_forms.confusable_forms(10_000, rng), "answer_types")
    pairs += labeled(form_pairs(facts, data_dir, rng), "answer_forms")
    pairs += labeled(modified_forms(counts["modified"], rng), "answer_modifiers")
    pairs += labeled(second_forms(facts, counts["second"], rng), "answer_second")
    pairs += labeled(trap_forms(facts, data_dir, counts["traps"], rng), "answer_traps")
    pairs += labeled(order_forms(counts["order"], rng), "answer_order")
    pairs += labeled(lexicon_forms(counts["lexicon"], rng), "answer_lexicon")
    pairs += (
        labeled(span_forms(read_questions(data_dir), counts["spans"], rng), "answer_spans") if counts["spans"] else ()
    )
    translated = read_rows(data_dir / "xquad.jsonl.gz")
    pairs += labeled(language_forms(translated, counts["languages"], rng, counts["languages_right"] / 100), "xquad")
    for at, pair in enumerate(pairs):
        if pair.question and rng.random() < 1 / 8:
            pairs[at] = pair._replace(question=answer_traps.asked_kindly(pair.question, rng))
    rng.shuffle(pairs)
    return pairs


if __name__ == "__main__":
    arguments = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    arguments.add_argument("--seed", type=int, required=True, help="seed of the pairs")
    arguments.add_argument("--second", type=int, default=50_000, help="number of second guesses, near names, ...")
    arguments.add_argument("--order", type=int, default=40_000, help="number of statements and their reverse, ...")
    arguments.add_argument("--judged", type=int, default=1, help="how often EVOUNA's judged responses are repeated")
    arguments.add_argument("--lexicon", type=int, default=0, help="number of other names, opposites, ...")
    arguments.add_argument("--spans", type=int, default=0, help="number of short answers that a reader copies, ...")
    arguments.add_argument("--languages", type=int, default=30_000, help="number of pairs of XQuAD's answers")
    arguments.add_argument("--languages_right", type=int, default=48, help="percentage of them that state the answer")
    arguments.add_argument("--traps", type=int, default=12_000, help="number of texts that state nothing, ...")
    arguments.add_argument("--modified", type=int, default=6_000, help="number of nouns with modifiers, ...")
    options = vars(arguments.parse_args())
    names = {number: name for name, number in LABELS.items()}
    for row in training_pairs(SHARED, options.pop("seed"), options):
        print(json.dumps({**row._asdict(), "label": names[row.label]}))
