"""``python -m seper_reward``, for launchers: ``torchrun --nproc_per_node 2 -m seper_reward label ...``."""

import sys

from seper_reward.cli import main

sys.exit(main())
