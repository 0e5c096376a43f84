"""What tests of several folders use: prompts, rebuilt samplers, the slow reference, commands as users run them."""

import copy
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import torch
import yaml
from accelerate.state import AcceleratorState

from seper_reward.data.queries import parse_query
from seper_reward.data.rows import clean
from seper_reward.labels.rows import labeled_query
from seper_reward.options import ReaderOptions
from seper_reward.reader.engine.engine_sampler import EngineSampler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import with_reader_defaults
from seper_reward.reader.sampler import Request
from seper_reward.runtime import distributed
from seper_reward.types import Estimate, LabeledQuery, Measured, Passage, Query, Responses, SetLabel, attempt, unwrap

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
PROMPTS = [
    "Question: What do bees make?\nAnswer:",
    "Passage: The mill burned down in 1840, says the parish book, and was never built again.\n"
    "Question: When did the mill burn down?\nAnswer:",
    "Q: 2+2?\nA:",
]


def as_query(row, corpus=None, **needs):
    """Return the query of one record that has not been cleaned."""
    return parse_query(clean(row), corpus, **needs).query


def rebuilt(sampler: ResponseSampler, layout=None, **changes) -> ResponseSampler:
    """Return a sampler of the same model with another layout and other options."""
    options = replace(sampler.options, **changes)
    return ResponseSampler(sampler.model, sampler.tokenizer, options, layout=layout)


def engine(sampler, *servers, retries=1, requests=64, **changes) -> EngineSampler:
    """Return a reader on servers of a test, with the options of another reader, and one more try by default."""
    options = replace(sampler.options, engine=[server.url for server in servers], **changes)
    return EngineSampler(options, sampler.tokenizer, retries=retries, requests=requests)


def prompt_ids(sampler, prompt):
    """Return the token ids that a sampler in this process reads for a prompt."""
    return sampler.encode(prompt)


def teacher_forced(sampler, prompt, token_ids):
    """The slow reference: one full forward pass, no cache, no padding."""
    ids = prompt_ids(sampler, prompt) + list(token_ids)
    with torch.no_grad():
        logits = sampler.model(input_ids=torch.tensor([ids])).logits[0].float()
    start = len(ids) - len(token_ids) - 1
    return logits[start:-1].log_softmax(-1).gather(1, torch.tensor(token_ids)[:, None])[:, 0]


def run(words, launcher=("-m", "seper_reward"), **options):
    """Run a command of the package in a process of its own."""
    return subprocess.run(
        [sys.executable, *launcher, *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, **options
    )


def write_rows(path, rows):
    """Write rows as JSON lines, and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def texts_of(test):
    """Return the tables of texts next to a test's file, in YAML."""
    return yaml.safe_load(Path(test).with_suffix(".yaml").read_text(encoding="utf-8"))


def mill_rows(count):
    """Return rows of questions with one or two passages, whose ids are in order."""
    return [
        {
            "id": f"q{at:02}",
            "question": f"Who runs mill {at}?",
            "answers": [f"Ida {at}"],
            "passages": [f"Ida {at} runs it.", "Sheep graze."][: 1 + at % 2],
        }
        for at in range(count)
    ]


def labels_of(folder):
    """Return the rows of a label folder."""
    return [json.loads(line) for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]


def evaluation_arguments(tiny_reader, tiny_entailment, path, out):
    words = ["--file", path, "--reader", tiny_reader, "--judge", tiny_entailment]
    fixed = "--dtype float32 --device cpu --num_samples 4 --max_new_tokens 8 --prompt brief"
    return [*map(str, words), *fixed.split(), "--json", str(out)]


def asking(prompts, answers=MappingProxyType({}), questions=MappingProxyType({})):
    """Return requests for prompts, of which some have answers and questions."""
    return [Request(prompt, tuple(answers.get(prompt, ())), questions.get(prompt, "")) for prompt in prompts]


def leaves_of(sampler, prompts, texts):
    """Return the leaf of each text after its prompt."""
    rows = sampler.sample([Request(prompt, (text,)) for prompt, text in zip(prompts, texts, strict=True)])
    return [leaf for row in rows for leaf in unwrap(row).known_leaves]


class ScriptedSampler:
    """A reader that replies to each prompt as a function says, all its samples alike; ``asked`` are the batches."""

    backend, name, weights_hash = "process", "scripted", "scripted"
    max_batch_tokens = prompts_ahead = 0
    knows_leaves = False
    layout, device = None, torch.device("cpu")

    def __init__(self, tokenizer, reply, window=4096):
        self.tokenizer, self.reply, self.window = tokenizer, reply, window
        self.options, self.asked = with_reader_defaults(ReaderOptions(), "scripted"), []

    @property
    def max_prompt_tokens(self):
        return self.window - self.options.max_new_tokens

    def sample(self, requests):
        self.asked.append([request.prompt for request in requests])
        texts = [self.reply(request.prompt) for request in requests]
        count = self.options.num_samples
        tokens = [tuple(self.tokenizer(text).input_ids) for text in texts]
        return [
            Responses((text,) * count, (torch.zeros(len(ids)),) * count, (ids,) * count, (True,) * count)
            for text, ids in zip(texts, tokens, strict=True)
        ]

    def remember(self, cache):
        pass

    def with_options(self, options):
        other = copy.copy(self)
        other.options = options
        return other


class ScriptedModel:
    """An entailment model that is a function of a pair: its entailment, or its class probabilities.

    ``asked`` are the pairs of each call, and ``unread`` is a function of a text.
    """

    name = weights_hash = "scripted"
    classes, max_batch_tokens, device = 3, 8192, torch.device("cpu")

    def __init__(self, probs, unread=lambda text: frozenset()):
        self._probs, self.unread, self.asked = probs, unread, []

    def probs(self, pairs, *, verbatim=False):
        assert len(set(pairs)) == len(pairs)
        if pairs:
            self.asked.append(list(pairs))
        rows = [found if isinstance(found, tuple) else (found, 1 - found, 0.0) for found in map(self._probs, pairs)]
        return torch.tensor(rows).view(-1, self.classes)


def in_forks(act, seconds):
    """Run ``act(rank)`` in two forked processes and return both results; raise what ``act`` raises.

    Forked processes need not import and load the modules and models of this one.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = zip(*(context.Pipe(duplex=False) for _ in range(2)), strict=True)
    ranks = [context.Process(target=_fork, args=(act, rank, theirs[rank])) for rank in range(2)]
    for process in ranks:
        process.start()
    for end in theirs:
        end.close()
    try:
        assert all(end.poll(seconds) for end in ours), "a rank hangs"
        results = [end.recv() for end in ours]
        for error in filter(lambda result: isinstance(result, BaseException), results):
            raise error
        return results
    finally:
        for process in ranks:
            process.kill()
            process.join()


def _fork(act, rank, answer):
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
    AcceleratorState._reset_state(reset_partial_state=True)
    try:
        result = act(rank)
    except BaseException as error:  # a failed assertion of pytest, too
        error.add_note(traceback.format_exc())
        result = error
    answer.send(result)


def on_two_ranks(act, folder, seconds=60):
    """Run ``act(rank)`` in two forked processes of one gloo group and return both results."""
    store = folder / f"store-{len(list(folder.glob('store-*')))}"
    group = {"init_method": f"file://{store}", "world_size": 2, "timeout": timedelta(seconds=seconds)}

    def ranked(rank):
        torch.distributed.init_process_group("gloo", rank=rank, **group)
        return act(rank)

    return in_forks(ranked, seconds)


def launch(act, folder, seconds=120):
    """Run ``act()``, which returns an exit status, in two forked processes with the environment of a launcher.

    Returns their standard output and their standard error, one text each, the main process's first.
    """
    with socket.socket() as free:
        free.bind(("", 0))
        port = str(free.getsockname()[1])

    def launched(rank):
        os.environ |= dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank))
        os.environ |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), "2")
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        distributed.process_state.cache_clear()
        with (
            (folder / f"{rank}.out").open("w") as out,
            (folder / f"{rank}.err").open("w") as err,
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            return act()

    statuses = in_forks(launched, seconds)
    out, err = ("".join((folder / f"{rank}.{end}").read_text() for rank in range(2)) for end in ("out", "err"))
    assert not any(statuses), err
    return out, err


class FindsThese:
    """A retriever that finds the same passages for every query; ``asked`` are the queries and their depths."""

    def __init__(self, passages):
        self.passages, self.asked = tuple(passages), []

    def retrieve(self, questions, top_k):
        self.asked.append((list(questions), top_k))
        return [self.passages[:top_k] for _ in questions]


class OneByOne:
    """A stand-in for a scorer: a test adds ``beliefs``, which is called question by question."""

    batch_size = 1
    reader = SimpleNamespace(expect=lambda asked, known=None: None, sampler=SimpleNamespace(prompts_ahead=0))

    def known_answers(self, request):
        return ()

    def measure(self, requests, batch_size=None):
        def beliefs(request):
            return Measured(tuple(self.beliefs(request.question, request.answers, request.contexts)))

        return [attempt(partial(beliefs, request)) for request in requests]


def two_hops():
    """By itself, the second passage misleads and the third helps; beside the first, the second is all that helps.

    Beside the second, only the first was measured.
    """
    texts = ("The mill is Ida's.", "Ida was born in Tern.", "Bob was born in Hallow.", "Sheep graze.")
    passages = tuple(Passage(text, id=str(at)) for at, text in enumerate(texts))
    query = Query("q", "Where was the owner of the mill born?", ("Tern",), passages)

    def surely(value):
        return Estimate(value, 1e-4, value, value)

    gains = {1: 0.5, 2: 0.0, 3: -0.6}
    sets = tuple(SetLabel((0, at), at, surely(gain), surely(0.5 + gain), surely(0.0)) for at, gain in gains.items())
    return LabeledQuery(query, (0.5, -0.4, 0.4, 0.0), (1e-4,) * 4, sets=sets)


def read_row(row, column="delta_seper"):
    """Return the labels of a label row in which texts and baseline may be missing."""
    texts = {"passage_id": "p", "title": "", "text": "Text."}
    passages = [{**texts, **passage} for passage in row["passages"]]
    return labeled_query({"id": "q", "question": "Who?", "answers": ["Ida"], **row, "passages": passages}, column)


def cells(table, first):
    """Return the cells of a Markdown table's row that begins with these."""
    rows = [[each.strip() for each in line.strip("|").split("|")] for line in table.splitlines()]
    return next(row[len(first) :] for row in rows if row[: len(first)] == first)


def run_block(card, folder):
    """Run the code block of a model card, after its PATH is replaced."""
    block = card.partition("```python\n")[2].partition("```")[0]
    assert 'from_pretrained("PATH")' in block
    exec(block.replace("PATH", str(folder)), {})


def until(true):
    """Wait until a condition holds, at most 30 seconds."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, "it does not become true"
        time.sleep(0.01)
