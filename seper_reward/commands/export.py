"""Write labels for sentence-transformers, Tevatron, FlagEmbedding or TREC tools."""

from seper_reward.options import ExportOptions
from seper_reward.runtime.messages import plural

_WITHOUT_GRADES = {"likelihood", "cross_encoder"}  # labels on another scale than a belief

_AFTER_EXPORT = {
    "tevatron": "python -m tevatron.retriever.driver.train --dataset_name json --dataset_path {output} ...",
    "flagembedding": "torchrun -m FlagEmbedding.finetune.embedder.encoder_only.base --train_data {output} ...",
    "trec": "ir_measures {output} RUN.trec nDCG@10",
}


def command(config: ExportOptions) -> str:
    """Run ``seper-reward export``."""
    from seper_reward.labels.export import write_labels
    from seper_reward.labels.heterogeneity import beyond_chance
    from seper_reward.labels.rows import labeled_queries, labeler_of, read_label_rows, recommended_label
    from seper_reward.labels.targets import lists_to_learn
    from seper_reward.retrieval import next_hop

    rows = read_label_rows(config.labels)
    label = config.label or recommended_label(rows.values())
    unbounded = _WITHOUT_GRADES & {label, labeler_of(rows.values())}
    if config.format == "trec" and unbounded:
        raise ValueError(
            f"format='trec' needs labels in [-1, 1], got labels of {unbounded.pop()!r}; set --format to "
            "sentence-transformers"
        )
    labeled = lists_to_learn(labeled_queries(rows, label), config.learn_from, next_hop)
    queries = beyond_chance(labeled, heterogeneity=config.heterogeneity, shrink=config.shrink)
    queries = [query for query in queries if query.labels]
    if config.heterogeneity < 1 and labeled and not queries:
        raise ValueError(
            f"expected questions whose labels differ by more than chance (heterogeneity={config.heterogeneity}), got "
            f"none of {len(labeled)}; raise heterogeneity or leave it out"
        )
    if config.format == "trec" and not 0 <= config.margin < 1:
        raise ValueError(
            f"format='trec' needs a margin in [0, 1), got {config.margin}; grades are thirds of what is above"
        )
    lines = write_labels(queries, config.output, config.format, config.margin)
    questions = plural(len(labeled), "question") + (" by hop" if config.learn_from == "paths" else "")
    print(f"{config.output}: {plural(lines, 'line')} from {len(queries)} of {questions}, labels {label}")
    return _AFTER_EXPORT.get(config.format, "").format(output=config.output)
