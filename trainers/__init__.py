"""Training recipes, run with ``seper-reward train NAME``, or ``python -m trainers.NAME`` in a checkout."""
