"""Passages that the reader writes: background, and what it keeps of others (EoR, arXiv:2405.20680)."""

from collections.abc import Iterator, Sequence

from tqdm.auto import tqdm

from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.prompts import fill_template
from seper_reward.reader.writer import Turn, Writer
from seper_reward.types import Passage, UnscorableError, unwrap

_BACKGROUND = "Write a short paragraph of what is known that helps to answer this question.\nQuestion: {question}"
_COMPRESS = (
    "Write down in one or two sentences what these passages say that helps to answer the question. Add nothing.\n"
    "{passages}\nQuestion: {question}"
)
_BLOCK = 16  # questions


class PassageWriter:
    """Writes passages with a reader, at temperature 0. The prompts are ours.

    Args:
        reader: The reader that writes.
        max_new_tokens: Longest passage in tokens, >= 1.
    """

    def __init__(self, reader: PromptedReader, max_new_tokens: int = 96) -> None:
        self._writer = Writer(reader, max_new_tokens)

    def background(self, questions: Sequence[str]) -> list[tuple[Passage, ...]]:
        """Return for each question a passage about it, from what the reader knows; for the others see ``compress``."""
        return self._written([self._prompt(_BACKGROUND, question, ()) for question in questions], "background")

    def compress(self, questions: Sequence[str], lists: Sequence[Sequence[Passage]]) -> list[tuple[Passage, ...]]:
        """Return for each question one passage in place of its own: what they say that helps to answer it.

        There is none where there was none before, where the reader writes nothing, or where the question is longer
        than its window.

        Raises:
            UnscorableError: The reader begins with thoughts, and no setting switches that off.
        """
        asked = zip(questions, lists, strict=True)
        prompts = [self._prompt(_COMPRESS, question, passages) if passages else None for question, passages in asked]
        return self._written(prompts, "compressed")

    def _written(self, prompts: Sequence[str | None], name: str) -> list[tuple[Passage, ...]]:
        texts = dict(self._texts(sorted({prompt for prompt in prompts if prompt is not None}), name))
        written = ("" if prompt is None else texts[prompt].strip() for prompt in prompts)
        return [(Passage(text, id=name),) if text else () for text in written]

    def _prompt(self, template: str, question: str, passages: Sequence[Passage]) -> str | None:
        asked = self._writer.as_data(question)

        def turns(texts: Sequence[str]) -> list[Turn]:
            filled = template.replace("{passages}", "\n".join(f"Passage: {{{at}}}" for at in range(len(texts))))
            fields = {str(at): text for at, text in enumerate(texts)}
            return [{"role": "user", "content": fill_template(filled, question=asked, **fields)}]

        try:
            return self._writer.prompt(passages, turns)
        except UnscorableError:
            return None

    def _texts(self, prompts: Sequence[str], name: str) -> Iterator[tuple[str, str]]:
        with tqdm(total=len(prompts), desc=f"writing {name}", unit="passage", disable=not prompts) as bar:
            for start in range(0, len(prompts), _BLOCK):
                block = prompts[start : start + _BLOCK]
                yield from zip(block, map(unwrap, self._writer.write(block)), strict=True)
                bar.update(len(block))
