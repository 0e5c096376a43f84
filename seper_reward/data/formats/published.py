"""Layouts of published data sets, as on the hub and, of SQuAD, HotpotQA and BEIR, as in their own files.

- SQuAD (arXiv:1606.05250): the paragraph in which annotators found the answer becomes a passage marked relevant.
- HotpotQA (arXiv:1809.09600), 2WikiMultihopQA: passages whose titles are in ``supporting_facts`` are marked relevant.
- MS MARCO (arXiv:1611.09268): the passages from which annotators wrote the answer are marked relevant.
- BoolQ (arXiv:1905.10044), FEVER (arXiv:1803.05355), MMLU (arXiv:2009.03300): classes become words that a reader can
  generate: yes or no, true or false, or the text of the right choice.
- BEIR (arXiv:2104.08663): queries ``{_id, text, metadata}``; few have answers, HotpotQA's are in ``metadata.answer``.

Questions without an answer (SQuAD 2.0, MS MARCO) have an empty list.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from seper_reward.data.formats.layout import Row

_FEVER_LABELS = {"SUPPORTS": ["true"], "REFUTES": ["false"], "NOT ENOUGH INFO": []}
_NO_ANSWER = "No Answer Present."  # of MS MARCO
_BEIR_ANSWERS = ("answers", "answer")


@dataclass(frozen=True)
class Published:
    """The layout of a published data set."""

    name: str
    recognised: Callable[[Row], bool]
    sources: str  # source columns of our fields, for messages
    convert: Callable[[Row], dict[str, Any]]
    has_passages: bool = True

    def fits(self, row: Row, needed: Collection[str]) -> bool:
        """Return whether a row has the layout's columns, and passages if they are needed."""
        return self.recognised(row) and (self.has_passages or "passages" not in needed or "passages" in row)

    def read_from(self, row: Row) -> str:
        """Return the source columns of the fields, for messages."""
        return self.sources


def squad_rows(document: Mapping[str, Any]) -> list[Any]:
    """Return the questions of SQuAD's own JSON file as rows of the hub; no rows for other documents.

    Raises:
        KeyError: An article is incomplete.
    """
    articles = document.get("data")
    if not isinstance(articles, list) or not all("paragraphs" in article for article in articles):
        return []
    return [
        {
            "id": asked["id"],
            "title": article.get("title", ""),
            "context": paragraph["context"],
            "question": asked["question"],
            "answers": {"text": [answer["text"] for answer in asked.get("answers") or []]},
        }
        for article in articles
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]


def _without(row: Row, *columns: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in columns}


def _texts(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)


def _marked_passage(text: Any, relevant: bool, title: Any = "") -> dict[str, Any]:
    return {"title": title, "text": text, "relevant": relevant}


def _is_squad(row: Row) -> bool:
    answers = row.get("answers")
    return {"question", "context"} <= set(row) and isinstance(answers, Mapping) and "text" in answers


def _squad(row: Row) -> dict[str, Any]:
    passage = _marked_passage(row["context"], True, row.get("title"))
    own = _without(row, "answers", "context", "title")
    return {**own, "answers": _texts(row["answers"]["text"]), "passages": [passage]}


def _is_hotpotqa(row: Row) -> bool:
    return {"question", "answer", "context", "supporting_facts"} <= set(row) and "passages" not in row


def _hotpotqa(row: Row) -> dict[str, Any]:
    facts, context = row["supporting_facts"], row["context"]
    supporting = set(facts["title"] if isinstance(facts, Mapping) else (title for title, _ in facts))
    if isinstance(context, Mapping):  # on the hub; files have pairs
        context = zip(context["title"], context["sentences"], strict=True)
    passages = [
        _marked_passage(" ".join(sentence.strip() for sentence in sentences), title in supporting, title)
        for title, sentences in context
    ]
    own = _without(row, "answer", "context", "supporting_facts")
    return {**own, "answers": row["answer"], "passages": passages}


def _is_ms_marco(row: Row) -> bool:
    passages = row.get("passages")
    return {"query", "answers"} <= set(row) and isinstance(passages, Mapping) and "passage_text" in passages


def _ms_marco(row: Row) -> dict[str, Any]:
    marked = zip(row["passages"]["passage_text"], row["passages"]["is_selected"], strict=True)
    return {
        **_without(row, "query", "query_id"),
        "id": row.get("query_id"),
        "question": row["query"],
        "answers": [answer for answer in _texts(row["answers"]) if answer != _NO_ANSWER],
        "passages": [_marked_passage(text, bool(mark)) for text, mark in marked],
    }


def _is_boolq(row: Row) -> bool:
    kinds = {"question": str, "answer": bool, "passage": str}
    return all(isinstance(row.get(name), kind) for name, kind in kinds.items())


def _boolq(row: Row) -> dict[str, Any]:
    return {
        **_without(row, "question", "answer", "passage"),
        "question": str(row["question"]).rstrip("?") + "?",
        "answers": ["yes" if row["answer"] else "no"],
        "passages": [_marked_passage(row["passage"], True)],
    }


def _is_fever(row: Row) -> bool:
    label = row.get("label")
    return isinstance(row.get("claim"), str) and isinstance(label, str) and label in _FEVER_LABELS


def _fever(row: Row) -> dict[str, Any]:
    own = _without(row, "claim", "label")
    return {**own, "question": f"True or false: {row['claim']}", "answers": _FEVER_LABELS[row["label"]]}


def _is_mmlu(row: Row) -> bool:
    choices, answer = row.get("choices"), row.get("answer")
    is_number = isinstance(answer, int) and not isinstance(answer, bool)
    return isinstance(row.get("question"), str) and isinstance(choices, list) and len(choices) > 1 and is_number


def _mmlu(row: Row) -> dict[str, Any]:
    choices = [str(choice) for choice in row["choices"]]
    if not 0 <= row["answer"] < len(choices):
        raise ValueError(f"answer must be the place of a choice, got {row['answer']}")
    own = _without(row, "question", "choices", "answer")
    question = f"{row['question']} Choose one: {'; '.join(choices)}"
    return {**own, "question": question, "answers": [choices[row["answer"]]]}


def _is_beir(row: Row) -> bool:
    return {"_id", "text"} <= set(row) and not {"question", "passages"} & set(row)


def _beir(row: Row) -> dict[str, Any]:
    metadata = row.get("metadata")
    sources = [row, metadata] if isinstance(metadata, Mapping) else [row]
    answers = [source[name] for source in sources for name in _BEIR_ANSWERS if source.get(name) is not None]
    own = _without(row, "text", "title", "metadata", *_BEIR_ANSWERS)
    return {**own, "question": row["text"], **({"answers": answers[0]} if answers else {})}


PUBLISHED = (
    Published(
        "SQuAD",
        _is_squad,
        "question from 'question', answers from 'answers.text', passages from 'context' and 'title'",
        _squad,
    ),
    Published(
        "HotpotQA",
        _is_hotpotqa,
        "answers from 'answer', passages from 'context', marks from 'supporting_facts'",
        _hotpotqa,
    ),
    Published(
        "MS MARCO",
        _is_ms_marco,
        "question from 'query', passages from 'passages.passage_text', marks from 'passages.is_selected'",
        _ms_marco,
    ),
    Published(
        "BoolQ",
        _is_boolq,
        "question from 'question', answers (yes, no) from 'answer', passages from 'passage'",
        _boolq,
    ),
    Published(
        "FEVER", _is_fever, "question from 'claim', answers (true, false) from 'label'", _fever, has_passages=False
    ),
    Published(
        "MMLU",
        _is_mmlu,
        "question from 'question' and 'choices', answers from 'choices' and 'answer'",
        _mmlu,
        has_passages=False,
    ),
)
# more general than our own layout
BEIR = Published("BEIR", _is_beir, "question from 'text', answers from 'answers' or 'metadata.answer'", _beir)
