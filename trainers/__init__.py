"""Training recipes, run from a checkout: ``python -m trainers.entailment --config ...``."""
