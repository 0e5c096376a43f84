"""Labels in other languages: XQuAD's questions, answers and paragraphs in one of them, as input of `label`.

    for language in es ar zh; do
        python -m tests.benchmarks.experiments.languages $language > runs/xquad-$language.jsonl
        seper-reward label --input runs/xquad-$language.jsonl --split all --reader runs/qwen \
            --output_dir runs/xquad/$language --cache runs/xquad.sqlite
    done
    seper-reward evaluate labels --labels runs/xquad/es runs/xquad/ar runs/xquad/zh

Questions are of paragraphs that the judge was not trained on. Their candidates are the paragraph, the others of its
article, and one each of two other articles.
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from seper_reward.data.rows import read_valid_rows
from tests.benchmarks.adapters.answer_languages import LANGUAGES, paragraphs_of
from tests.benchmarks.common import SHARED


def questions(rows: Sequence[dict[str, Any]], language: str, limit: int) -> list[dict[str, object]]:
    """Return one question of each paragraph with its candidates in a language, the relevant one first."""
    contexts = {row["paragraph"]: row["context"][language] for row in rows if "context" in row}  # its first row has it
    tested = [group[0] for split in ("test", "dev") for group in paragraphs_of(rows, split)][:limit]
    made = []
    for at, row in enumerate(tested):
        article = _article(row["paragraph"])
        near = [name for name in contexts if _article(name) == article and name != row["paragraph"]]
        far = [name for name in contexts if _article(name) != article]
        names = [row["paragraph"], *near, far[at % len(far)], far[(at + len(far) // 2) % len(far)]]
        passages = [{"id": name, "text": contexts[name], "relevant": name == row["paragraph"]} for name in names]
        answers = [row["answer"][language]]
        made.append({"id": row["id"], "question": row["question"][language], "answers": answers, "passages": passages})
    return made


def _article(paragraph: str) -> str:
    return paragraph.partition("-")[0]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the questions of a language."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("language", choices=LANGUAGES)
    made.add_argument("--limit", type=int, default=18, help="number of questions (default: 18)")
    words = made.parse_args(argv)
    rows = [dict(row) for _, row in read_valid_rows(SHARED / "xquad.jsonl.gz")]
    for row in questions(rows, words.language, words.limit):
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
