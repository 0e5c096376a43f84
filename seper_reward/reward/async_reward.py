"""The reward as a coroutine, for trainers that await several rewards side by side."""

import asyncio
from typing import TYPE_CHECKING, Any

from seper_reward.client import SePerClient
from seper_reward.reward.reward import SePerReward

if TYPE_CHECKING:
    from seper_reward.scorer import SePerScorer


class AsyncSePerReward(SePerReward):
    """A ``SePerReward`` whose calls are awaited, with the same arguments and the same rewards.

    TRL's trainers gather their asynchronous rewards, so that servers measure for several of them at once. A call waits
    in a thread of its own, which leaves the trainer's event loop to others.

    Args:
        scorer: The URL of ``seper-reward serve``, a client of it, or a scorer in front of an engine.
        **settings: Further arguments of ``SePerReward``.

    Raises:
        ValueError: The reader runs in this process, where rewards would only wait for each other; or an argument of
            ``SePerReward`` is out of range; or ranks are to share the work, whose threads would wait for each other.
    """

    def __init__(self, scorer: "SePerScorer | SePerClient | str", **settings: Any) -> None:
        super().__init__(scorer, **settings)
        if self._share:  # threads of several rewards may ask the other ranks in any order
            raise ValueError("an async reward measures for its own rank, got share_ranks=True; leave it out")
        remote = isinstance(scorer, str | SePerClient) or scorer.sampler.backend == "engine"
        if not remote or self.reader != "separate":
            raise ValueError(
                "an async reward needs a reader that runs elsewhere: the URL of `seper-reward serve`, or a scorer "
                "with an engine; take SePerReward for one that reads in this process"
            )

    async def __call__(self, *args: Any, **columns: Any) -> list[float | None]:  # type: ignore[override]
        """Return one reward per completion, as ``SePerReward`` does."""
        return await asyncio.to_thread(super().__call__, *args, **columns)
