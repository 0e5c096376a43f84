"""Which estimator options agree best with people's relevance marks? (Not a timing: Pearson correlations.)

    python -m tests.benchmarks.estimator_options --file ../shared/data/qa/nq_oracle_bm25neg.jsonl.gz

Measures with a cache, so that each response is sampled once or twice (`mass` asks for the gold answers, too), then
reads the same responses with every preset and every single change of the default. Use a split
that no reported number comes from: dev by default.
"""

from pathlib import Path

from seper_reward import Estimator, SePerScorer
from seper_reward.data.queries import read_queries
from seper_reward.data.splits import split_of, spread
from seper_reward.evaluate.contexts import choose_passages
from seper_reward.evaluate.correlation import correlation
from seper_reward.reader.loading import READER_DEFAULTS
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.pretrained import EMBEDDED
from tests.benchmarks.common import finish, parser

CHANGES = [
    {"weighting": "uniform"},
    {"weighting": "sequence"},
    {"weighting": "mean_token"},
    {"aliases": "mean"},
    {"aliases": "max"},
    {"kernel": "max"},
    {"match": "no_contradiction"},
    {"clusters": "greedy"},
    {"judged_by": "first"},
    {"judged_texts": "verbatim"},
    {"threshold": 0.8},
]


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--file", required=True)
    made.add_argument("--split", default="dev")
    made.add_argument("--limit", type=int, default=60)
    made.add_argument("--passages_per_question", type=int, default=4)
    made.add_argument("--cache", default="runs/estimator-options.sqlite")
    options = made.parse_args()
    queries = [query for query in read_queries(options.file).queries if split_of(query.id) == options.split]
    queries = [choose_passages(query, options.passages_per_question) for query in spread(queries, options.limit)]
    base = SePerScorer.from_pretrained(cache=Cache(Path(options.cache)))
    prompt = READER_DEFAULTS[EMBEDDED].prompt
    named = [(f"preset {name}", Estimator.preset(name)) for name in ("default", "paper", "official")]
    named += [
        (", ".join(f"{key}={value}" for key, value in change.items()), Estimator(**change)) for change in CHANGES
    ]
    result = {}
    for name, estimator in named:
        scorer = SePerScorer(base.sampler, base.entailment, prompt=prompt, estimator=estimator, cache=base.cache)
        found = correlation(scorer, queries).pearson
        result[name] = {kind: round(found[f"delta_seper_{kind}"], 3) for kind in ("soft", "hard")}
    finish({"questions": len(queries), "split": options.split, "pearson": result}, options.json)


if __name__ == "__main__":
    main()
