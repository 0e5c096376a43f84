"""Command line: ``seper-reward label``, ``evaluate``, ``train``, ``export``, ``report`` and the others.

What the commands do is in `commands/`. Each returns what to run next, which is printed when it is done.
"""

import difflib
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version

from seper_reward.commands import audit, entailment, export, label, neighbours, rag, recipes, report, serve, validity
from seper_reward.shipped import RECIPES, is_ours

_USAGE = """\
usage: seper-reward COMMAND [--config FILE.yaml] [--setting value ...] | --version

Measures what retrieved passages do to a reader model's belief in the right answer (ΔSePer).

commands:
  label                    label how much each passage helps to answer its question
  demo                     the same with the project's own questions and the embedded models, into runs/demo
  evaluate correlation     compare ΔSePer and other measures with people's marks of relevance
  evaluate repeats         spread, error and cost of SePer over the number of responses, by estimator
  evaluate robustness      compare ΔSePer with people's marks under other entailment models and prompts
  evaluate transfer        do labels hold for other readers: agreement of label folders without sampling noise
  evaluate counterfactual  compare ΔSePer of passages with planted wrong answers and of relevant ones
  evaluate erag            correlate metrics of retrieved lists, by several labels, with how well the reader answers
  evaluate judgments       compare judgments of what is useful with people's marks, and by the answers they lead to
  evaluate consistency     do retrievers fail on the same questions, and where do wrong answers come from
  evaluate ensemble        let the answers with several retrievers vote, and compare with the best retriever
  evaluate compare         compare labelers side by side, on several data sets
  evaluate components      what depth, reranking and prompt compression are worth to the reader
  evaluate retrievers      compare retrievers by relevance, by ΔSePer and by the reader's answers
  evaluate workflows       compare workflows that search, reason and refuse, step by step
  evaluate judge           how often the judge pays wrong answers and refuses right ones, also by people's verdicts
  reestimate               compute labels again by other options of SePer, without asking the reader
  export                   write labels for sentence-transformers, Tevatron, FlagEmbedding or TREC tools
  audit                    tell of an agent's log which searches were needed, useless or harmful, and what they pay
  audit-negatives          find mined hard negatives that hold an answer, and list, relabel or drop them
  push                     upload labels or a trained model to the Hugging Face hub
  report                   a page of labels and evaluations (.html), or a plot of the beliefs in one question
  save-reader              save a reader as a plain model folder, for an engine (vLLM) to serve
  serve                    answer trainers over HTTP: beliefs, ΔSePer and rewards from one scorer for all of them
  configs copy             write the configurations that the documentation names into a folder
{recipes}

`seper-reward COMMAND --help` explains its settings by group, `--help all` also those of TRL and transformers. A YAML
file given with --config holds the same settings; the command line wins. Several processes:
torchrun --nproc_per_node 2 -m seper_reward label ...
""".format(recipes="\n".join(f"  {f'train {name}':<24} {text}" for name, text in RECIPES.items()))
_GROUPS = ("evaluate", "configs", "train")  # first words of commands of two words
_FORMER = {"evaluate equivalence": "evaluate judge", "evaluate stress": "evaluate judge"}  # for one release
# recipes that are experiments now, which no wheel contains
_EXPERIMENTS = {f"train {name.replace('_', '-')}": name for name in ("gating", "compare_labelers", "new_head")}
_RESUMING = {
    "label",
    "demo",
    "audit-negatives",
    "evaluate compare",
    *(f"train {name}" for name in RECIPES if name != "sft"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 after a message if the input or a setting is at fault, or 130 after Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # tables hold Δ and –, which not every terminal can show
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands: dict[str, Callable[[list[str]], str]] = {
        "label": label.label_command,
        "demo": label.demo_command,
        "evaluate correlation": validity.correlation_command,
        "evaluate repeats": validity.repeats_command,
        "evaluate robustness": validity.robustness_command,
        "evaluate transfer": validity.transfer_command,
        "evaluate counterfactual": validity.counterfactual_command,
        "evaluate erag": neighbours.erag_command,
        "evaluate judgments": neighbours.judgments_command,
        "evaluate consistency": neighbours.consistency_command,
        "evaluate ensemble": neighbours.ensemble_command,
        "evaluate compare": neighbours.compare_command,
        "evaluate components": rag.components_command,
        "evaluate retrievers": rag.retrievers_command,
        "evaluate workflows": rag.workflows_command,
        "evaluate judge": entailment.judge_command,
        "reestimate": label.reestimate_command,
        "export": export.export_command,
        "audit": audit.audit_command,
        "audit-negatives": export.audit_negatives_command,
        "push": export.push_command,
        "report": report.report_command,
        "save-reader": serve.save_reader_command,
        "serve": serve.serve_command,
        "configs copy": recipes.copy_configs_command,
        **{f"train {recipe}": partial(recipes.train_command, recipe) for recipe in RECIPES},
    }
    if arguments == ["--version"]:
        print(f"seper-reward {version('seper-reward')}")
        return 0
    for words in (1, 2):
        name = " ".join(arguments[:words])
        if name in _EXPERIMENTS:
            replacement = f"python -m tests.benchmarks.experiments.{_EXPERIMENTS[name]}"
            print(f"seper-reward {name}: was removed; in a checkout, run '{replacement}'", file=sys.stderr)
            return 2
        if name in _FORMER:
            print(f"seper-reward {name}: is now 'seper-reward {_FORMER[name]}'", file=sys.stderr)
            name = _FORMER[name]
        if name in commands:
            return _run(name, commands[name], arguments[words:])
    if {"-h", "--help"} & set(arguments):
        print(_USAGE)
        return 0
    if not arguments:
        print(_USAGE, file=sys.stderr)
        return 2
    name = " ".join(arguments[: 2 if arguments[0] in _GROUPS else 1])
    nearest = [] if name.startswith("-") else difflib.get_close_matches(name, commands, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"expected one of {', '.join(commands)}"
    print(f"seper-reward: unknown command {name!r}; {hint} (seper-reward --help)", file=sys.stderr)
    return 2


def _run(name: str, command: Callable[[list[str]], str], arguments: list[str]) -> int:
    """Run a command, print what to run next, and return its exit status; errors that a user can mend are one line."""
    try:
        following = command(arguments)
    except (OSError, ValueError) as error:
        if name.startswith("train ") and isinstance(error, ValueError) and not _is_message(error):
            raise
        print(f"seper-reward {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        hint = "; what is finished stays on disk, and the same command goes on" if name in _RESUMING else ""
        print(f"\nseper-reward {name}: interrupted{hint}", file=sys.stderr)
        return 130
    if following and os.environ.get("RANK", "0") == "0":
        print(f"next: {following}", file=sys.stderr)  # not among the results, which a program may read
    return 0


def _is_message(error: ValueError) -> bool:
    """Whether our own code raised an error, which says what to do; one of a trainer's library needs its traceback."""
    return is_ours(traceback.extract_tb(error.__traceback__)[-1].filename)
