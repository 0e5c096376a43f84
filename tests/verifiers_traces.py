"""Score traces of verifiers 0.4 with the judge and the credit of docs/adapters.md; runs in verifiers' environment.

    python tests/verifiers_traces.py OUTPUT    # with seper_judge.py and seper_credit.py on the path

OUTPUT gets the traces as ``trace.to_record()`` writes them, one a line.
"""

import asyncio
import json
import sys
from pathlib import Path

import seper_credit
import verifiers.v1 as vf
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.graph import MessageNode
from verifiers.v1.trace import AgentInfo, Trace, TraceTask
from verifiers.v1.types import AssistantMessage, ToolCall, ToolMessage, UserMessage

QUESTION, MILL = "Who runs the mill in Hallow?", "Ida Voss runs the mill in Hallow."


class Row(vf.TaskData):
    """A row with gold answers."""

    answers: list[str] | None


class Lane(vf.Task[Row, vf.State, vf.TaskConfig]):
    """A task without rewards of its own."""


def searched(answers):
    call = ToolCall(id="1", name="search", arguments=json.dumps({"query": "mill"}))
    said = [
        (AssistantMessage(tool_calls=[call]), 3),
        (ToolMessage(tool_call_id="1", content=MILL), 0),
        (AssistantMessage(content="Answer: Ida Voss"), 2),
    ]
    return new_trace(answers, said)


def new_trace(answers, said):
    nodes = [MessageNode(message=UserMessage(content=QUESTION))]
    for message, tokens in said:
        mask = [True] * tokens
        nodes.append(
            MessageNode(
                parent=len(nodes) - 1, message=message, sampled=bool(tokens), token_ids=list(range(tokens)), mask=mask,
                logprobs=[-0.5] * tokens,
            )
        )  # fmt: skip
    data = Row(prompt=QUESTION, answers=answers)
    return Trace(task=TraceTask(type="Lane", data=data), agent=AgentInfo(config=WireAgentConfig()), nodes=nodes)


async def main(output: Path) -> None:
    config = vf.TaskConfig(judges=[{"id": "seper_judge"}])
    traces = [
        searched(["Ida Voss"]),
        new_trace(["Ida Voss"], [(AssistantMessage(content="Answer: Bob"), 1)]),
        searched(None),
    ]
    for trace in traces:
        try:
            await Lane(trace.task.data, config).score(trace)
        except Exception as error:  # the framework's rollout records it on the trace
            trace.info["error"] = str(error)
    seper_credit.give_credit(traces)
    rows = []
    for trace in traces:
        reward = trace.rewards["seper_judge"]
        rows.append({**trace.to_record(), "reward": None if reward is None else reward.value})
    output.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
