"""How often does a sampled response change with the shape of its batch, and with the dtype?

    python -m tests.benchmarks.batch_shape

The noise of a response is the same in any batch, but low digits of the logits are not, and near-ties flip. Labels
avoid this by fixed units of work; a cache shared between runs does not. Prints the share of responses that differ.
"""

from tqdm import tqdm

from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.options import ReaderOptions
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import PLAIN
from seper_reward.reader.prompts import PromptBuilder
from tests.benchmarks.common import finish, parser
from tests.helpers import asking, rebuilt


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=8)
    options = made.parse_args()
    queries = read_queries(QUESTIONS, read_corpus(CORPUS)).queries[::20][: options.questions]
    drawn, result = {}, {}
    for dtype in ("float32", "bfloat16"):
        together = ResponseSampler.from_pretrained(
            PLAIN, ReaderOptions(dtype=dtype), temperature=1.0, max_new_tokens=16
        )
        alone = rebuilt(together, max_batch_tokens=1)
        builder = PromptBuilder(together.tokenizer, "few_shot", max_prompt_tokens=together.max_prompt_tokens)
        rows, other = [], []
        for query in tqdm(queries, desc=dtype):
            prompts = [builder.build(query.question, (passage,)) for passage in query.passages]
            rows += [ids for row in together.sample(asking(prompts)) for ids in row.token_ids]
            other += [ids for row in alone.sample(asking(prompts)) for ids in row.token_ids]
        drawn[dtype] = rows
        differ = sum(one != two for one, two in zip(rows, other, strict=True))
        result[f"{dtype}, batches of a question or of one prompt"] = differ
    differ = sum(one != two for one, two in zip(drawn["float32"], drawn["bfloat16"], strict=True))
    result["float32 or bfloat16"] = differ
    finish({"responses": len(drawn["float32"]), "differ": result}, options.json)


if __name__ == "__main__":
    main()
