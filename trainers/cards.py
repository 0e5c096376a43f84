"""Model cards of all recipes: code that loads the model, its settings, and its results."""

from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from seper_reward.reader.loading import READER_HUB_ID

from .models import MERGED, needs_merging, public_name

_CARD = """\
---
library_name: {library}
pipeline_tag: {pipeline}
base_model: {base}
tags: [seper-reward, {recipe}]
---
# {title}

Trained by `seper-reward train {recipe}` (seper-reward {version}).

```python
{use}
```

## Settings

```yaml
{settings}```

## Results

{results}
"""
_LOCAL = {"cache", "device", "output_dir", "report_to"}
_ARGUMENTS = (
    "learning_rate", "lr_scheduler_type", "warmup_steps", "per_device_train_batch_size", "num_train_epochs",
    "max_steps", "num_generations", "beta", "max_completion_length", "scale_rewards", "seed",
)  # fmt: skip
_PLAIN = 'prompt = tokenizer("A PROMPT AS IN THE TRAINING ROWS", return_tensors="pt")\n'
_GENERATE = """\
tokens = model.generate(**prompt, max_new_tokens=64)[0, prompt["input_ids"].shape[1] :]
print(tokenizer.decode(tokens))"""


def write_card(
    folders: Iterable[Path],
    title: str,
    recipe: str,
    config: Any,
    arguments: Any,
    *,
    results: str,
    **fields: str,
) -> None:
    """Write a model card with fields ``library``, ``pipeline``, ``base`` and ``use`` into folders that exist."""
    values = arguments.to_dict()
    settings = {**asdict(config), **{name: values[name] for name in _ARGUMENTS if name in values}}
    settings = {name: value for name, value in settings.items() if value is not None and name not in _LOCAL}
    text = _CARD.format(
        title=title,
        recipe=recipe,
        version=version("seper-reward"),
        settings=yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
        results=results,
        **fields,
    )
    for folder in folders:
        if folder.is_dir():
            (folder / "README.md").write_text(text, encoding="utf-8")


def generator_fields(model: str, adapter: bool, prompt: str = _PLAIN) -> dict[str, str]:
    """Return the fields of a causal model's card; ``prompt`` is the code that encodes a prompt."""
    merged = adapter and needs_merging(model)
    home, kind = "transformers", "AutoModelForCausalLM"
    if adapter and not merged:
        home, kind = "peft", "AutoPeftModelForCausalLM"
    note = f'# PATH: the folder "{MERGED}" of the run; its adapter alone needs seper-reward\n' if merged else ""
    return {
        "library": home,
        "pipeline": "text-generation",
        "base": READER_HUB_ID if needs_merging(model) else public_name(model),
        "use": f"from {home} import {kind}\nfrom transformers import AutoTokenizer\n\n{note}"
        f'tokenizer = AutoTokenizer.from_pretrained("PATH")\nmodel = {kind}.from_pretrained("PATH")\n'
        f"{prompt}{_GENERATE}",
    }
