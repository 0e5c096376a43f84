"""Copy a model folder whose tokenizer reads the tags of tool calls as ordinary text.

    python -m tests.benchmarks.experiments.text_tags runs/qwen runs/qwen-text-tags

In Qwen2.5-Coder-0.5B-Instruct each tag is one token that was never trained: its embedding equals those of unused
tokens (cosine .99999), so the model never writes it. If the tags are text, the model writes them without training.
"""

import json
import shutil
import sys
from pathlib import Path

if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    shutil.copytree(source, target)
    path = target / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tags = ("<tool_call>", "</tool_call>")
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["content"] not in tags]
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
