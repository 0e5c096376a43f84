"""Copy a model folder whose tokenizer reads the tags of tool calls as ordinary text.

    python -m tests.benchmarks.experiments.text_tags runs/qwen runs/qwen-text-tags

In Qwen2.5-Coder-0.5B-Instruct each tag is one token that was never trained: its embedding equals those of unused
tokens (cosine .99999), so the model never writes it. If the tags are text, the model writes them without training.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

TAGS = ("<tool_call>", "</tool_call>")


def main() -> int:
    """Copy the folder, without the added tokens of the tags; return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of the model")
    parser.add_argument("target", type=Path, help="folder to write, which must not exist")
    folders = parser.parse_args()
    shutil.copytree(folders.source, folders.target)
    path = folders.target / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["content"] not in TAGS]
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
