"""Compare labels, exports, rewards, server answers and training steps with the frozen ones.

python -m tests.golden                  compare with the frozen artifacts in the repository
python -m tests.golden --write          freeze the artifacts of this code
python -m tests.golden --keep FOLDER    write the artifacts there as well, to look at
"""

import argparse
import sys
import time
from pathlib import Path

from tests.golden.compare import differences, read_frozen, write_frozen
from tests.golden.record import everything


def main() -> int:
    """Run the command; return 1 if an artifact differs by more than low digits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="freeze the artifacts of this code")
    parser.add_argument("--keep", type=Path, help="write the artifacts into this folder as well")
    options = parser.parse_args()
    start = time.perf_counter()
    found = everything(lambda part: print(f"{time.perf_counter() - start:5.0f} s  {part}", flush=True))
    for name, text in found.items() if options.keep else ():
        path = options.keep / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if options.write:
        write_frozen(found)
        print(f"{len(found)} artifacts frozen")
        return 0
    frozen = read_frozen()
    equal = [name for name in found if found[name] == frozen.get(name)]
    wrong = differences(frozen, found)
    print(f"{len(found)} artifacts: {len(equal)} equal to the byte, {len(wrong)} different (beyond low digits)")
    for name, reason in wrong.items():
        print(f"  {name}: {reason}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
