"""Training recipes, run with ``seper-reward train NAME``, which in a checkout is ``python -m trainers.NAME``."""
