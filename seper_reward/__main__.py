"""Entry point of ``python -m seper_reward``, for launchers: ``torchrun ... -m seper_reward label ...``."""

import sys

from seper_reward.cli import main

sys.exit(main())
