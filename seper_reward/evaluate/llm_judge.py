"""A language model as judge of responses."""

from collections.abc import Sequence

from seper_reward.labels.replies import yes_or_no
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.prompts import fill_template
from seper_reward.reader.writer import Writer
from seper_reward.runtime.messages import say
from seper_reward.types import Answers, UnscorableError, answer_items

_REPLY_TOKENS = 8  # enough for yes or no, and to see that a reply is neither
_ASKS = """\
Question: {question}
Right answer: {answer}
Response: {response}
Does the response give the right answer? Other words for the same thing are right, too.
Reply with one word: yes or no."""


class LLMJudge:
    """Judges responses by asking a language model, at temperature 0; only "yes" and "no" are understood.

    Args:
        reader: The language model, in this process or on servers.

    Attributes:
        asked: How many responses were judged; equal ones to one question count once.
        not_understood: How many replies were neither yes nor no, or could not be asked for.
    """

    def __init__(self, reader: PromptedReader) -> None:
        self._writer = Writer(reader, _REPLY_TOKENS)
        self.asked = self.not_understood = 0

    def verdicts(self, question: str, answers: Answers, responses: Sequence[str]) -> dict[str, float]:
        """Return 1 for each response that the model calls right and 0 for each that it calls wrong.

        Responses whose reply is not understood are left out, and counted; nothing is guessed.

        Args:
            question: The question.
            answers: Its gold answer.
            responses: The responses; a blank one is wrong, and the model is not asked.
        """
        stated = sorted({response for response in responses if response.strip()})
        replies = self._replies(question, answers, stated)
        read = {response: yes_or_no(reply) for response, reply in replies.items()}
        verdicts = {response: float(verdict) for response, verdict in read.items() if verdict is not None}
        self.asked += len(stated)
        self.not_understood += len(stated) - len(verdicts)
        return verdicts | {response: 0.0 for response in responses if not response.strip()}

    def _replies(self, question: str, answers: Answers, responses: Sequence[str]) -> dict[str, str]:
        prompts: dict[str, str] = {}
        for response in responses:
            try:
                prompts[response] = self._prompt(question, answers, response)
            except UnscorableError as error:
                say(f"question {question[:60]!r}: the judge cannot be asked of a response: {error}")
        replies: dict[str, str] = {}
        for response, reply in zip(prompts, self._writer.write(list(prompts.values())), strict=True):
            if isinstance(reply, UnscorableError):
                say(f"question {question[:60]!r}: the judge does not answer: {reply}")
            else:
                replies[response] = reply
        return replies

    def _prompt(self, question: str, answers: Answers, response: str) -> str:
        as_data = self._writer.as_data
        answer = "; ".join(" or ".join(aliases) for aliases in answer_items(answers))
        told = fill_template(_ASKS, question=as_data(question), answer=as_data(answer), response=as_data(response))
        return self._writer.prompt((), lambda _: [{"role": "user", "content": told}])
