"""Bodies of requests: the fields that clients may send, their validation, and their conversion to records."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, Self

import pydantic.dataclasses
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.rollouts import Rollout, read_rollouts, unusable
from seper_reward.reward.tools import SearchTools, SeveralToolsError
from seper_reward.types import Asked, Passage

_MOST = 1e6  # maximum weight or price; beliefs are at most 1
Weight = Annotated[float | None, Field(ge=0, le=_MOST)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100_000)]
Aliases = Annotated[list[Text], Field(min_length=1, max_length=256)]
AnswersField = Annotated[Aliases, Field(description="Aliases of the gold answer.")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PassageBody(BaseModel):
    """A passage: a text, or ``{text, title?, id?}``; other fields are ignored."""

    text: Text
    title: str = Field("", max_length=10_000)
    id: str | int | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value

    @property
    def passage(self) -> Passage:
        """The record."""
        return Passage(self.text, self.title.strip(), "" if self.id is None else str(self.id))


class QueryBody(_Body):
    """A question, its answer, and either single passages or sets of passages."""

    question: Text
    answers: AnswersField
    passages: list[PassageBody] = Field([], description="Passages; each is measured separately.")
    passage_sets: list[Annotated[list[PassageBody], Field(min_length=1)]] = Field(
        [], description="Sets of passages that the reader sees together, in place of `passages`."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.passages) == bool(self.passage_sets):
            raise ValueError("expected either passages or passage_sets, at least one; got both or none")
        return self

    @property
    def sets(self) -> list[tuple[Passage, ...]]:
        """The sets of passages that are measured."""
        return [tuple(body.passage for body in some) for some in self.passage_sets or [[one] for one in self.passages]]

    @property
    def asked(self) -> Asked:
        """The baseline and the sets."""
        return Asked(self.question, tuple(self.answers), ((), *self.sets))


class UtilitiesBody(_Body):
    """Body of ``POST /utilities``."""

    queries: list[QueryBody] = Field(min_length=1)


def _as_unicode(value: Any) -> Any:
    json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair raises ValueError
    return value


@pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class AskedBody(Asked):
    """A request in ``POST /beliefs``, without unknown fields."""


class BeliefsBody(_Body):
    """Body of ``POST /beliefs``: requests of rewards, in which an empty context is the baseline.

    Texts are not restricted, since an invalid text of one rollout must not refuse a whole batch.
    """

    asked: Annotated[list[AskedBody], BeforeValidator(_as_unicode), Field(min_length=1)]


class RolloutBody(_Body):
    """A rollout; a row with other types cannot be scored, as in ``SePerReward``."""

    question: Any
    answers: Any
    completion: Any = Field(None, description="A text, or a list of messages whose tool messages are the searches.")
    passages: Any = Field(None, description="Passages of one search, instead of the completion's tool messages.")


class RewardsBody(_Body):
    """Body of ``POST /rewards``; the default weights are the server's."""

    rollouts: list[RolloutBody] = Field(min_length=1)
    answer_weight: Weight = None
    gain_weight: Weight = None
    price: Weight = None
    closed_book: bool | None = None

    def weights(self, default: RewardWeights) -> RewardWeights:
        """Return the weights of this request."""
        changes = {weight.name: getattr(self, weight.name) for weight in fields(RewardWeights)}
        return replace(default, **{name: value for name, value in changes.items() if value is not None})


@dataclass(frozen=True)
class RolloutFormat:
    """Options for reading completions (``read_rollouts``), set on the server: a client's pattern could run forever."""

    passage_tag: str | None = None
    answer_pattern: str | None = None
    search_tools: Sequence[str] | None = None


def read_bodies(bodies: Sequence[RolloutBody], reading: RolloutFormat) -> list[Rollout]:
    """Return the rollouts of ``POST /rewards``; unusable rows have the reason in ``problem``."""
    tools = SearchTools(reading.search_tools)
    try:
        tools.see(body.completion for body in bodies if body.passages is None)
    except SeveralToolsError as error:
        return [unusable(str(error))] * len(bodies)
    options = {**asdict(reading), "search_tools": tools.chosen()}
    rollouts = []
    for body in bodies:
        try:
            columns = ([body.question], [body.answers], [body.completion], [body.passages])
            rollouts += read_rollouts(*columns, **options)
        except (ValueError, AttributeError, TypeError, RecursionError) as error:  # errors of a whole column
            rollouts.append(unusable(str(error)))
    return rollouts
