"""Short responses of a reader to train questions, with labels by rule: training data of the entailment adapter.

    python -m trainers.adapters.reader_responses --reader FOLDER --output responses.jsonl

Each question is asked without a passage and with one of its passages. The responses are right, wrong, or left out if
the rule is not sure. Questions are the train splits of NQ, PopQA and HotpotQA without EVOUNA's dev and test questions.
The run is resumable: the samples are in ``OUTPUT.samples``, and are labelled when all of them are there.
"""

import argparse
import random
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from seper_reward import EntailmentScorer, SePerScorer
from seper_reward.data.answers import abstains, normalize_answer, says_yes_or_no
from seper_reward.reader.sampler import ReaderOptions
from seper_reward.runtime.json_files import json_line, read_lines, write_lines
from seper_reward.types import Asked, Passage, UnscorableError

from .entailment_data import Row, evouna_rows, train_rows

_SHARES = {"nq_oracle_bm25neg": 0.5, "popqa": 0.25, "hotpotqa_distractor": 0.25}  # of the questions
_PASSAGE_WORDS = 120  # longest passage in words: reading is most of the time
_BATCH = 8  # questions per batch
_MOST_ENTAILED = 0.9  # a wrong response that the present judge is surer of may be a paraphrase
_FUNCTION_WORDS = frozenset({
    "a", "an", "the", "it", "its", "is", "was", "are", "were", "be", "been", "that", "this", "these", "those", "of",
    "in", "on", "at", "by", "to", "for", "from", "with", "as", "and", "he", "she", "they", "his", "her", "their",
    "there", "has", "have", "had", "who", "which", "what", "when", "where", "how",
})  # fmt: skip
_DENIAL = re.compile(r"\b(not|no|never|nor|neither|except|unknown|unclear|or|but|n't)\b|n['’]t\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred|thousand|million|billion|"
    r"first|second|third|fourth|fifth|[ivx]+|once|twice|dozen)\b",
    re.IGNORECASE,
)
# occupations that one person's page may use for another: a response and an answer of one group are left out
_RELATED = tuple(
    re.compile(words, re.IGNORECASE)
    for words in (
        r"polit|president|minister|senator|governor|mayor|member of|secretary|leader|legislat|ambassador|diplomat|"
        r"representative|congress|king|queen|chancellor|official|civil serv|government|noble|\bMP\b|lord|council",
        r"music|sing|compos|guitar|pian|song|rap|drum|violin|band|conductor|vocal|bass|record|DJ|disc|jockey|opera|organ",
        r"act[ors]|actress|comed|perform|film|movie|director|producer|screen|televis|TV|star|theat|dram|model|voice|"
        r"cinemat|entertain|host|present",
        r"writ|author|novel|poet|journal|playw|edit|critic|essay|report|column|publish|histor|translat|lingu|blog",
        r"foot|soccer|athlet|player|sport|coach|manager|cricket|cycl|swim|runner|box|skat|rac|goalk|wrest|sprint|champion",
        r"scien|physic|mathem|chem|biolog|profess|academ|philos|econom|astron|engineer|scholar|teach|research|botan|zoo|"
        r"geolog|psych|sociol|anthrop|archaeo|invent|doctor|surgeon|medic|lectur|university|explor|natural|comput|program",
        r"paint|art|sculpt|photo|architect|design|illustr|cartoon|engrav|draw|anim",
        r"busi|entrep|execut|CEO|chief|owner|found|trader|merchant|bank|invest|industr|manager|dealer",
        r"priest|bishop|pope|saint|monk|relig|cardinal|rabbi|theolog|mission|cleric|pastor|minist|nun|church|imam|abbot",
        r"soldier|officer|general|milit|admiral|naval|army|pilot|captain|marine|command|aviat|astronaut|air force",
        r"law|judge|attorney|jur|barrister|solicit|advocat|magistrat",
    )
)


def asked_rows(data_dir: Path, count: int, seed: int) -> list[Row]:
    """Return at most ``count`` train questions, in random order."""
    held_out = {row["question"].lower() for split in ("dev", "test") for row in evouna_rows(data_dir, split)}
    rng = random.Random(seed)
    rows: list[Row] = []
    for name, share in _SHARES.items():
        own = [row for row in train_rows(data_dir, name) if row["question"].lower() not in held_out]
        rows += [{**row, "source": name} for row in rng.sample(own, min(len(own), round(count * share)))]
    rng.shuffle(rows)
    return rows


def sample(rows: Sequence[Row], scorer: SePerScorer, path: Path) -> None:
    """Add the rows that ``path`` lacks, ``{source, question, answers, responses}``, one a line."""
    done = {row["question"] for row in read_lines(path)} if path.exists() else set()
    left = [row for row in rows if row["question"] not in done]
    with path.open("a", encoding="utf-8") as file, tqdm(total=len(rows), initial=len(done), unit="question") as bar:
        for start in range(0, len(left), _BATCH):
            batch = left[start : start + _BATCH]
            asked = [Asked(row["question"], tuple(row["answers"]), ((), (_passage(row),))) for row in batch]
            for row, found in zip(batch, scorer.responses(asked), strict=True):
                responses: list[str] = []
                if not isinstance(found, UnscorableError):
                    texts = (pair for each in found for pair in zip(each.texts, each.finished, strict=True))
                    responses = list(dict.fromkeys(text for text, finished in texts if finished and text))
                kept = {name: row[name] for name in ("source", "question", "answers")}
                file.write(json_line({**kept, "responses": responses}))
            file.flush()
            bar.update(len(batch))


def _passage(row: Row) -> Passage:
    """Return a passage of a row, relevant in half of the rows, cut to the longest passage."""
    rng = random.Random(row["question"])
    relevant = rng.random() < 0.5
    chosen = rng.choice([each for each in row["passages"] if each["relevant"] == relevant] or row["passages"])
    return Passage(" ".join(chosen["text"].split()[:_PASSAGE_WORDS]), chosen["title"])


def labelled(rows: Sequence[Row], judge: EntailmentScorer) -> Iterator[Row]:
    """Yield ``{question, response, answer, entailed}`` of the responses that the rule is sure of.

    Args:
        rows: Rows of ``{question, answers, responses}``.
        judge: The present judge, which filters wrong responses that may be paraphrases.
    """
    known = [
        (row["question"], response, answer, entailed)
        for row in rows
        for response in row["responses"]
        for answer, entailed in [verdict(row["question"], response, row["answers"])]
        if entailed is not None
    ]
    probs = judge.score([(response, answer) for _, response, answer, _ in known], [each[0] for each in known])
    for (question, response, answer, entailed), prob in zip(known, probs.tolist(), strict=True):
        if entailed or prob < _MOST_ENTAILED:
            yield {"question": question, "response": response, "answer": answer, "entailed": entailed}


def verdict(question: str, response: str, answers: Sequence[str]) -> tuple[str, bool | None]:
    """Return an alias, and whether the response states it; ``None`` if the rule is not sure.

    >>> verdict("Where was Ida born?", "It was Tern, of course.", ["Port Tern", "Tern"])
    ('Tern', True)
    >>> verdict("Where was Ida born?", "Hallow", ["Tern"]), verdict("Where was Ida born?", "near Tern Hill", ["Tern"])
    (('Tern', False), ('Tern', None))
    """
    said = normalize_answer(response)
    for answer in answers:
        if said == normalize_answer(answer):
            return answer, True
    if abstains(response):
        return answers[0], False
    if says_yes_or_no(answers):
        first = said.split()[:1]
        return answers[0], False if first in (["yes"], ["no"]) and first[0] != answers[0].lower() else None
    if len(said.split()) > 12:
        return answers[0], None
    known = _FUNCTION_WORDS | _stems(question)
    for answer in sorted(answers, key=len, reverse=True):
        gold = normalize_answer(answer)
        found = re.search(rf"(?<!\w){re.escape(gold)}(?!\w)", said) if len(gold) > 1 else None
        if not found:
            continue
        rest = re.sub(re.escape(answer), " ", response, flags=re.IGNORECASE)
        named = {word for word in re.findall(r"\w+", rest) if not _stems(word) & known and word.lower() not in known}
        second = any(word[0].isupper() or word[0].isdigit() for word in named)
        # words between the answer's and the end may change it: "a film about the village of Tern"
        sure = len(said.split()) <= 8 and not second and not _DENIAL.search(rest) and len(named) <= 1
        return answer, True if sure else None
    own = _stems(" ".join(answers)) - _FUNCTION_WORDS
    spoken = _stems(response) - _FUNCTION_WORDS
    answer = answers[0]
    if not spoken or spoken & own or not re.search(r"\w", response):
        return answer, None
    joined = "".join(said.split())
    if any(
        _initials(answer) == joined or "".join(normalize_answer(answer).split()) == _initials(response)
        for answer in answers
    ):
        return answer, None
    if bool(_NUMBER.search(response)) and any(_NUMBER.search(each) for each in answers):
        # one notation only: "four" may be 4, and "70s" 1974
        digits = [re.findall(r"\d+", text) for text in (response, *answers)]
        if not all(digits) or any(len(one) != len(digits[0][0]) for row in digits for one in row[:1]):
            return answer, None
    if "occupation" in question and any(
        group.search(response) and group.search(" ".join(answers)) for group in _RELATED
    ):
        return answer, None
    if re.search(r"\b(country|state|nation|where|city|region|continent)\b", question.lower()) and "," in response:
        return answer, None  # "Lyon, France" may name the region that is asked for
    return answer, False


def _stems(text: str) -> set[str]:
    """Return the first four letters of a text's words, without accents; function words whole."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return {word if word in _FUNCTION_WORDS else word[:4] for word in re.findall(r"\w+", plain)}


def _initials(text: str) -> str:
    return "".join(word[0] for word in re.findall(r"\w+", text) if word.lower() not in _FUNCTION_WORDS).casefold()


def main(argv: Sequence[str] | None = None) -> int:
    """Sample and label responses; return 0."""
    parser = argparse.ArgumentParser(prog="python -m trainers.adapters.reader_responses", description=__doc__)
    parser.add_argument("--reader", required=True, help="Folder of the reader.")
    parser.add_argument("--output", type=Path, required=True, help="JSON lines file to write.")
    parser.add_argument("--data_dir", type=Path, default=Path("../shared/data"), help="Folder with evouna/ and qa/.")
    parser.add_argument("--questions", type=int, default=720, help="Number of questions (default: 720).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the choice of questions (default: 0).")
    arguments = parser.parse_args(argv)
    rows = asked_rows(arguments.data_dir, arguments.questions, arguments.seed)
    options: dict[str, Any] = {"num_samples": 4, "max_new_tokens": 16}
    scorer = SePerScorer.from_pretrained(arguments.reader, reader_options=ReaderOptions(dtype="bfloat16"), **options)
    samples = arguments.output.with_name(f"{arguments.output.name}.samples")
    sample(rows, scorer, samples)
    pairs = list(labelled(list(read_lines(samples)), scorer.entailment))
    write_lines(arguments.output, pairs)
    right = sum(pair["entailed"] for pair in pairs)
    print(f"{right} right and {len(pairs) - right} wrong responses: {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
