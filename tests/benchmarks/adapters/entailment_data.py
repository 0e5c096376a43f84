"""Training data of the entailment adapter that ships: pairs of premise and hypothesis whose licences allow it."""

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from seper_reward.data.rows import read_valid_rows
from seper_reward.data.splits import split_of
from seper_reward.evaluate.judge import EVOUNA_SYSTEMS, Verdict, aliases_of
from seper_reward.runtime.pretrained import embedded_encoder_folder
from tests.benchmarks.adapters.answer_forms import (
    Fact,
    Form,
    any_of,
    date_forms,
    list_forms,
    number_forms,
    paragraph_forms,
    stated_forms,
    yes_no_forms,
)
from tests.benchmarks.adapters.answer_modifiers import modified_forms
from tests.benchmarks.adapters.answer_second import second_forms
from tests.benchmarks.adapters.answer_traps import (
    asked_kindly,
    denied_forms,
    echo_forms,
    gibberish_forms,
    prose_forms,
    shotgun_forms,
)
from tests.benchmarks.adapters.answer_types import TYPES, confusable_pairs
from tests.benchmarks.adapters.substitution import answer_type, words_of
from trainers.entailment import LABELS, NOT_ENTAILMENT, LabeledPair

Row = dict[str, Any]
LICENCES = {
    "snli_dev_test": "CC BY-SA",
    "snli_cad": "Apache-2.0",
    "mnli_dev_matched": "OANC and CC",
    "mnli_mismatched_1k": "OANC and CC",
    "conjnli_human": "MIT",
    "conjnli_adv_train": "MIT",
    "breaking_nli": "CC BY-SA",
    "med": "CC BY-SA",
    "help_conj_disj": "CC BY-SA",
    "negation_nli": "MIT",
    "fever_symmetric": "Wikipedia, CC BY-SA",
    "evouna": "Apache-2.0",
    "nq_oracle_bm25neg": "CC BY-SA 3.0",
}
NOT_NLI = ("evouna", "nq_oracle_bm25neg")
# most pairs of sets that are machine-made or skewed, so that they do not outweigh the others
CAPS = {"conjnli_adv_train": 4000, "breaking_nli": 2500, "med": 2500, "help_conj_disj": 1500}
# sets whose licences do not allow shipping weights or are not known
EVALUATION_ONLY = (
    "sick", "anli_dev", "imppres_presup", "imppres_implic_logical", "ling_in_loop", "2way_mctest_statements",
    "2way_negation_rte", "2way_qnli_dev", "2way_rte", "2way_scitail",
)  # fmt: skip


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a JSON or JSON-lines file."""
    return [dict(row) for _, row in read_valid_rows(path)]


def nli_pairs(data_dir: Path, name: str, split: str) -> list[LabeledPair]:
    """Read the pairs of one NLI set in one split."""
    rows = read_rows(data_dir / "nli" / f"{name}.jsonl.gz")
    return [
        LabeledPair(row["premise"], row["hypothesis"], LABELS[row["label"]], name)
        for row in rows
        if row["split"] == split
    ]


def evouna_rows(data_dir: Path, split: str) -> list[Row]:
    """Read EVOUNA's rows in one split by question; ``train`` leaves out questions of NQ's dev and test (``qa/``)."""
    rows = [row for row in read_rows(data_dir / "evouna" / "NQ.json.gz") if not row["improper"]]
    held_out: set[str] = set()
    if split == "train":
        qa = read_rows(data_dir / "qa" / "nq_oracle_bm25neg.jsonl.gz")
        held_out = {row["question"].lower() for row in qa if split_of(row["id"]) != "train"}
    return [row for row in rows if split_of(row["question"]) == split and row["question"].lower() not in held_out]


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
            pair = [wrong, aliases[0]]
            rng.shuffle(pair)
            yield LabeledPair(pair[0], pair[1], NOT_ENTAILMENT, "evouna_swap", question)


def mined_pairs(rows: list[Row], rng: random.Random, per_question: int) -> Iterator[LabeledPair]:
    """Yield answers with another question's answer that MiniLM finds similar (Lyon for Paris): not entailed."""
    from sentence_transformers import SentenceTransformer, util

    encoder = SentenceTransformer(str(embedded_encoder_folder()), device="cpu")
    answers = sorted({aliases_of(row)[0] for row in rows})
    embeddings = encoder.encode(answers, convert_to_tensor=True, show_progress_bar=False)
    near = dict(zip(answers, util.semantic_search(embeddings, embeddings, top_k=20), strict=True))
    for row in rows:
        question, gold = row["question"], aliases_of(row)[0]
        own = words_of(" ".join(aliases_of(row)))
        others = [answers[int(hit["corpus_id"])] for hit in near[gold]]
        others = [other for other in others if own.isdisjoint(words_of(other))]
        for other in rng.sample(others, min(per_question, len(others))):
            pair = [other, gold]
            rng.shuffle(pair)
            yield LabeledPair(pair[0], pair[1], NOT_ENTAILMENT, "evouna_mined", question)


def typed_pairs(count: int, rng: random.Random) -> Iterator[LabeledPair]:
    """Yield ``count`` pairs of answers of one type, from ``answer_types.py``."""
    yield from _labeled(itertools.starmap(Form, confusable_pairs(count, rng)), "answer_types")


def form_pairs(data_dir: Path, rng: random.Random) -> Iterator[LabeledPair]:
    """Yield generated forms of answers, which EVOUNA and NLI sets rarely have (``answer_forms.py``)."""
    facts = [*known_facts(evouna_rows(data_dir, "train"), common_facts()), *typed_facts()]
    statements = [
        (row["premise"], row["hypothesis"], row["label"])
        for name in ("snli_dev_test", "snli_cad", "mnli_dev_matched")
        for row in read_rows(data_dir / "nli" / f"{name}.jsonl.gz")
        if row["split"] == "train"
    ]
    forms: list[Form] = [
        *stated_forms(facts, 9000, rng),
        *list_forms(facts, 3000, rng),
        *number_forms(5000, rng),
        *date_forms(5000, rng),
        *yes_no_forms(statements, 6000, rng),
        *paragraph_forms(paragraphs(data_dir, rng), 4000, rng),
    ]
    yield from _labeled(forms, "answer_forms")


def modified_pairs(count: int, rng: random.Random) -> Iterator[LabeledPair]:
    """Yield answers that say more than was asked, and what only looks so (``answer_modifiers.py``)."""
    yield from _labeled(modified_forms(count, rng), "answer_modifiers")


def second_pairs(data_dir: Path, count: int, rng: random.Random) -> Iterator[LabeledPair]:
    """Yield second guesses, qualifiers, near names and right wordings (``answer_second.py``)."""
    facts = [*known_facts(evouna_rows(data_dir, "train"), common_facts()), *typed_facts()]
    yield from _labeled(second_forms(facts, count, rng), "answer_second")


def trap_pairs(data_dir: Path, count: int, rng: random.Random) -> Iterator[LabeledPair]:
    """Yield about ``count`` texts that state nothing, or are long and do state the answer (``answer_traps.py``)."""
    facts = [*known_facts(evouna_rows(data_dir, "train"), common_facts()), *typed_facts()]
    yield from _labeled(_traps(facts, data_dir, count, rng), "answer_traps")


def trap_verdicts(data_dir: Path, count: int, seed: int) -> list[Verdict]:
    """Return about ``count`` such texts on EVOUNA's dev questions, as verdicts; training does not use them."""
    facts = known_facts(evouna_rows(data_dir, "dev"))
    return [
        Verdict(form.question, (form.answer,), form.response, form.entailed, "traps")
        for form in _traps(facts, data_dir, count, random.Random(seed))
    ]


def _traps(facts: Sequence[Fact], data_dir: Path, count: int, rng: random.Random) -> list[Form]:
    passages = mined_passages(data_dir)
    return [
        *prose_forms(facts, passages, count * 9 // 32, rng),
        *gibberish_forms(facts, passages, count * 6 // 32, rng),
        *echo_forms(facts, count * 7 // 32, rng),
        *shotgun_forms(facts, count * 5 // 32, rng),
        *denied_forms(facts, count * 5 // 32, rng),
    ]


def _labeled(forms: Iterable[Form], source: str) -> Iterator[LabeledPair]:
    for question, response, answer, entailed in forms:
        label = LABELS["entailment"] if entailed else NOT_ENTAILMENT
        yield LabeledPair(response, answer, label, source, question)


def known_facts(rows: Sequence[Row], others: Sequence[Row] = ()) -> list[Fact]:
    """Return the questions that have at least 5 wrong answers of the same kind."""
    known = [(row["question"], tuple(aliases_of(row))) for row in rows]
    known += [(fact["question"], tuple(fact["answers"])) for fact in others]
    return [
        Fact(question, answers, others)
        for (question, answers), others in zip(known, wrong_answers(known), strict=True)
        if len(others) >= 5
    ]


def wrong_answers(known: Sequence[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, ...]]:
    """Yield, per (question, answers), the answers to other questions of its kind that share no word with its own."""
    by_kind: dict[tuple[str, str], set[str]] = {}
    for question, answers in known:
        by_kind.setdefault(question_kind(question, answers[0]), set()).add(answers[0])
    for question, answers in known:
        own = words_of(" ".join(answers))
        others = by_kind[question_kind(question, answers[0])]
        yield tuple(sorted(other for other in others if own.isdisjoint(words_of(other))))


def typed_facts() -> Iterator[Fact]:
    """Yield the questions of ``answer_types.py`` with each answer and those it is confused with."""
    for kind in TYPES:
        for question in kind.questions:
            for member in kind.members:
                others = tuple(other[0] for other in kind.members if other != member)
                if len(others) >= 5:
                    yield Fact(question, member, others)


def common_facts() -> list[Row]:
    """Read our common facts, ``{question, answers}``."""
    return read_rows(Path(__file__).with_name("common_facts.jsonl"))


def question_kind(question: str, answer: str) -> tuple[str, str]:
    """Return a question's question word and the type of its answer."""
    word = re.search(r"\b(who|when|where|how many|how|which|what)\b", question.lower())
    return (word.group() if word else "", answer_type(answer))


def paragraphs(data_dir: Path, rng: random.Random) -> list[tuple[str, str, list[str], str]]:
    """Return NQ's train questions as (question, gold passage, answers, wrong answer of the same kind), each twice."""
    rows = _nq_rows(data_dir)
    examples = []
    wrong = wrong_answers([(row["question"], row["answers"]) for row in rows])
    for row, others in zip(rows, wrong, strict=True):
        gold = next(passage["text"] for passage in row["passages"] if passage["relevant"])
        examples += [(row["question"], gold, row["answers"], rng.choice(others)) for _ in range(2) if others]
    return examples


def mined_passages(data_dir: Path) -> list[str]:
    """Return, for NQ's train questions, the passages of other questions that BM25 finds and that lack the answer."""
    return [
        passage["text"]
        for row in _nq_rows(data_dir)
        for passage in row["passages"]
        if not passage["relevant"] and not any_of(row["answers"]).search(passage["text"])
    ]


def _nq_rows(data_dir: Path) -> list[Row]:
    rows = read_rows(data_dir / "qa" / "nq_oracle_bm25neg.jsonl.gz")
    # EVOUNA has some of these questions, and splits them by question rather than by id
    held_out = {row["question"].lower() for split in ("dev", "test") for row in evouna_rows(data_dir, split)}
    return [row for row in rows if split_of(row["id"]) == "train" and row["question"].lower() not in held_out]


def training_pairs(
    data_dir: Path,
    seed: int,
    confusable: bool = True,
    forms: bool = False,
    traps: int = 0,
    modified: int = 0,
    second: int = 0,
) -> list[LabeledPair]:
    """Return the training pairs in random order."""
    rng = random.Random(seed)
    pairs: list[LabeledPair] = []
    for name in LICENCES:
        if name == "evouna":
            rows = evouna_rows(data_dir, "train")
            pairs += [*judged_pairs(rows), *swapped_pairs(rows, rng)]
            pairs += mined_pairs(rows, rng, per_question=3) if confusable else ()
        elif name not in NOT_NLI:
            nli = nli_pairs(data_dir, name, "train")
            most = min(len(nli), CAPS.get(name, len(nli)))
            pairs += rng.sample(nli, most // 3 if traps else most)
    pairs += typed_pairs(10_000, rng) if confusable else ()
    pairs += form_pairs(data_dir, rng) if forms else ()
    pairs += modified_pairs(modified, rng)
    pairs += second_pairs(data_dir, second, rng) if second else ()
    if traps:
        pairs += trap_pairs(data_dir, traps, rng)
        pairs = [
            pair._replace(question=asked_kindly(pair.question, rng))
            if pair.question and rng.random() < 1 / 8
            else pair
            for pair in pairs
        ]
    rng.shuffle(pairs)
    return pairs
