"""Are error bars on an engine as narrow as in process?

    OMP_NUM_THREADS=1 python -m tests.benchmarks.engine_intervals --json out.json

Measures the same demo questions with the embedded reader in process, on a vLLM server whose echo gives the
probabilities of the gold answers, and on the same server without them. The error of each is its distance from the
value with 200 samples in process.
"""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from seper_reward import SePerScorer
from seper_reward.cli import main as cli
from seper_reward.data.inputs import load_input
from seper_reward.data.splits import spread
from seper_reward.estimators.entailment import EntailmentScorer
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.sampler import EngineOptions, ReaderOptions
from seper_reward.runtime.pretrained import LoadOptions
from seper_reward.types import Query, UnscorableError, Utility
from tests.benchmarks.common import finish, parser
from tests.helpers import rebuilt
from tests.vllm_server import ABSENT, PYTHON, vllm_server

_REFERENCE = 200


def utilities(scorer: SePerScorer, queries: Sequence[Query]) -> list[Utility]:
    """Return the utilities of all passages of all questions.

    Raises:
        UnscorableError: A question could not be measured.
    """
    rows = scorer.utilities(queries)
    for row in rows:
        if isinstance(row, UnscorableError):
            raise row
    return [utility for row in rows for utility in row]


def described(found: Sequence[Utility], truth: Sequence[Utility]) -> dict[str, float]:
    """Return the median width of the 95 % intervals, the root mean squared error, and the share with delta_belief."""
    errors = [(one.delta_seper - other.delta_seper) ** 2 for one, other in zip(found, truth, strict=True)]
    return {
        "median width of the 95 % interval": round(
            statistics.median(each.soft.high - each.soft.low for each in found), 4
        ),
        "mean width of the 95 % interval": round(
            statistics.fmean(each.soft.high - each.soft.low for each in found), 4
        ),
        "root mean squared error": round(statistics.fmean(errors) ** 0.5, 4),
        "share with delta_belief": statistics.fmean(each.combined is not None for each in found),
    }


def measure(count: int) -> dict[str, dict[str, float]]:
    """Return what ``described`` returns for each place of the reader."""
    local = ResponseSampler.from_pretrained(
        "embedded", ReaderOptions(dtype="float32", device="cpu"), max_new_tokens=12
    )
    judge = EntailmentScorer.from_pretrained(options=LoadOptions(dtype="float32", device="cpu"))
    queries = spread(load_input().queries, count)
    truth = utilities(SePerScorer(rebuilt(local, num_samples=_REFERENCE, seed=1), judge, prompt="brief"), queries)
    found = {"in process": utilities(SePerScorer(local, judge, prompt="brief"), queries)}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "reader"
        cli(["merge-reader", "--output_dir", str(model), "--dtype", "float32"])
        with vllm_server(model, Path(folder) / "log.txt") as url:
            for name, leaves in (("engine", True), ("engine, without probabilities of gold answers", False)):
                engine = EngineSampler(EngineOptions((url,)), local.tokenizer, **vars(local.options))
                if not leaves:
                    engine.__dict__["_echoes"] = False
                found[name] = utilities(SePerScorer(engine, judge, prompt="brief"), queries)
    return {name: described(rows, truth) for name, rows in found.items()}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--questions", type=int, default=40)
    given = options.parse_args()
    if not PYTHON.exists():
        sys.exit(f"skipped: {ABSENT}")
    finish({"questions": given.questions, **measure(given.questions)}, given.json)


if __name__ == "__main__":
    main()
