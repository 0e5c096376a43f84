"""A language model as a judge of responses."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from seper_reward.config import JudgeConfig, split_server
from seper_reward.labels.replies import yes_or_no
from seper_reward.reader.engine.engine_sampler import load_sampler
from seper_reward.reader.loading import reader_defaults
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.prompts import fill_template
from seper_reward.reader.sampler import EngineOptions, ReaderOptions
from seper_reward.reader.writer import Writer
from seper_reward.runtime.distributed import gather_in_order
from seper_reward.runtime.messages import say
from seper_reward.runtime.settings import setting
from seper_reward.types import Answers, UnscorableError, answer_items, attempt

_REPLY_TOKENS = 8  # enough for yes or no, and to detect any other reply
_PROMPT = """\
Question: {question}
Right answer: {answer}
Response: {response}
Does the response give the right answer? Other words for the same thing are right, too.
Reply with one word: yes or no."""


@dataclass
class LLMJudgeConfig(JudgeConfig):
    """Settings of the language model that judges responses."""

    llm_judge: str = setting(
        "none",
        "Language model that also judges the responses (yes or no; other replies are counted and left out): none, "
        "reader (the reader itself), a hub id, a folder, or TOKENIZER@URL for the model of a server.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        split_server(self.llm_judge, "llm_judge")


def load_llm_judge(config: LLMJudgeConfig, reader: PromptedReader | None = None) -> PromptedReader | None:
    """Return the language model that judges responses; ``None`` if the setting is ``none``.

    It is the reader itself if the setting is ``reader``, and shares the reader's cache if there is one.

    Raises:
        OSError: The model cannot be loaded, or a server does not answer.
        ValueError: The setting is ``reader``, and there is no reader.
    """
    if config.llm_judge == "none":
        return None
    if config.llm_judge == "reader":
        if reader is None:
            raise ValueError("llm_judge must not be 'reader' in a command without a reader; name a hub id or a folder")
        return reader
    model, urls = split_server(config.llm_judge, "llm_judge")
    options = ReaderOptions(dtype=config.dtype, device=config.device, trust_remote_code=config.trust_remote_code)
    sampler = load_sampler(model, options=options, engine=EngineOptions(tuple(urls)))
    prompt = reader_defaults(model).prompt
    return PromptedReader(sampler, prompt=prompt, cache=None if reader is None else reader.cache)


class LLMJudge:
    """Judges responses by a language model at temperature 0; only the replies "yes" and "no" are accepted.

    ``asked`` is the number of judged responses (equal ones to one question count once), and ``not_understood`` the
    number of replies that were neither yes nor no, or could not be requested.
    """

    def __init__(self, reader: PromptedReader) -> None:
        self._writer = Writer(reader, _REPLY_TOKENS)
        self.asked = self.not_understood = 0

    def verdicts(self, question: str, answers: Answers, responses: Sequence[str]) -> dict[str, float]:
        """Return 1 for each response that is right by the model and 0 for each that is wrong.

        Responses whose reply is neither yes nor no are left out and counted. A blank response is wrong without a
        request.
        """
        stated = sorted({response for response in responses if response.strip()})
        replies = self._replies(question, answers, stated)
        read = {response: yes_or_no(reply) for response, reply in replies.items()}
        verdicts = {response: float(verdict) for response, verdict in read.items() if verdict is not None}
        self.asked += len(stated)
        self.not_understood += len(stated) - len(verdicts)
        return verdicts | {response: 0.0 for response in responses if not response.strip()}

    def counts(self) -> dict[str, int]:
        """Return the number of replies to the judges of all processes, and of unparsable ones."""
        found = gather_in_order([(self.asked, self.not_understood)])
        return {"asked": sum(asked for asked, _ in found), "not_understood": sum(lost for _, lost in found)}

    def _replies(self, question: str, answers: Answers, responses: Sequence[str]) -> dict[str, str]:
        """Return the reply on each response that has one; other responses are logged."""
        prompts = {each: attempt(partial(self._prompt, question, answers, each)) for each in responses}
        asked = {each: prompt for each, prompt in prompts.items() if isinstance(prompt, str)}
        found = prompts | dict(zip(asked, self._writer.write(list(asked.values())), strict=True))
        for error in (each for each in found.values() if isinstance(each, UnscorableError)):
            say(f"question {question[:60]!r}: the judge cannot judge a response: {error}")
        return {response: reply for response, reply in found.items() if isinstance(reply, str)}

    def _prompt(self, question: str, answers: Answers, response: str) -> str:
        as_data = self._writer.as_data
        answer = "; ".join(" or ".join(aliases) for aliases in answer_items(answers))
        filled = fill_template(_PROMPT, question=as_data(question), answer=as_data(answer), response=as_data(response))
        return self._writer.prompt((), lambda _: [{"role": "user", "content": filled}])
