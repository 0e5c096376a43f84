"""Random models of the checks, with a tokenizer that is made on the spot: no weights travel."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from seper_reward import SePerScorer
from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.options import ReaderOptions
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.types import Passage, Query
from tests.reader.in_process.architectures import tokenizer as byte_tokenizer

PREFIX = "Question: "


@dataclass(frozen=True)
class Plan:
    """Sizes of the checks.

    Attributes:
        device: Device of all models.
        hidden: Width of the small reader.
        layers: Layers of it.
        questions: Questions that are labeled, with two passages each.
        samples: Responses per prompt.
        new_tokens: Longest response.
        batch_sizes: Prompts that are sampled together.
        folder: Folder for models and runs.
    """

    device: torch.device
    folder: Path
    hidden: int = 512
    layers: int = 8
    questions: int = 16
    samples: int = 10
    new_tokens: int = 16
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)

    @classmethod
    def on(cls, device: torch.device, folder: Path) -> "Plan":
        """Return the plan of a device: on a CPU the small one."""
        if device.type != "cpu":
            return cls(device, folder)
        return cls(device, folder, 128, 2, 4, 4, 6, (1, 4, 64))


def new_tokenizer(pairs: bool = False) -> Any:
    """Return a byte-level tokenizer.

    Args:
        pairs: Whether it encodes pairs of texts for a classifier, with a separator.
    """
    made = byte_tokenizer()
    made.model_max_length = 512 if pairs else 4096
    if pairs:
        from tokenizers.processors import TemplateProcessing

        made.backend_tokenizer.post_processor = TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
        made.sep_token = "</s>"
    return made


def llama(hidden: int, layers: int, vocabulary: int = 300, **sizes: Any) -> Any:
    """Return the configuration of a Llama."""
    heads = max(hidden // 64, 4)
    common = {
        "vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": 4 * hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": heads // 2, "max_position_embeddings": 4096,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    }  # fmt: skip
    # wide enough that tokens differ in probability
    return transformers.LlamaConfig(**{**common, "initializer_range": 2 / hidden**0.5, **sizes})


def write_reader(plan: Plan) -> Path:
    """Write the small reader into the plan's folder, and return its path."""
    path = plan.folder / "reader"
    if not path.is_dir():
        torch.manual_seed(0)
        transformers.LlamaForCausalLM(llama(plan.hidden, plan.layers)).save_pretrained(path)
        new_tokenizer().save_pretrained(path)
    return path


def write_judge(plan: Plan) -> Path:
    """Write a random entailment model, and return its path."""
    path = plan.folder / "judge"
    if not path.is_dir():
        torch.manual_seed(1)
        labels = {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}
        transformers.BertForSequenceClassification(
            _bert(id2label=labels, label2id={name: place for place, name in labels.items()})
        ).save_pretrained(path)
        new_tokenizer(pairs=True).save_pretrained(path)
    return path


def write_encoder(plan: Plan) -> Path:
    """Write a random bi-encoder for sentence-transformers, and return its path."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    path = plan.folder / "encoder" / "model"
    if not path.is_dir():
        torch.manual_seed(2)
        base = path.with_name("base")
        transformers.BertModel(_bert()).save_pretrained(base)
        new_tokenizer(pairs=True).save_pretrained(base)
        word = Transformer(str(base), max_seq_length=128)
        SentenceTransformer(modules=[word, Pooling(64)], device="cpu").save_pretrained(str(path))
    return path


def _bert(**more: Any) -> Any:
    sizes = {"vocab_size": 300, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return transformers.BertConfig(**sizes, intermediate_size=128, pad_token_id=0, initializer_range=0.5, **more)


def load_sampler(plan: Plan, device: torch.device | None = None, dtype: str = "float32", **more: Any) -> Any:
    """Return the sampler of the small reader; ``more`` are its layout and options."""
    layout = more.pop("layout", None)
    drawn = {"num_samples": plan.samples, "max_new_tokens": plan.new_tokens, **more}
    place = {"dtype": dtype, "device": str(device or plan.device)}
    options = ReaderOptions(reader=str(write_reader(plan)), **place, **drawn)
    return ResponseSampler.from_pretrained(options, layout=layout)


def load_scorer(plan: Plan, device: torch.device | None = None, dtype: str = "float32", **more: Any) -> SePerScorer:
    """Return a scorer of the small reader and the random judge."""
    from seper_reward.options import ModelOptions

    options = ModelOptions(dtype=dtype, device=str(device or plan.device))
    judge = EntailmentScorer.from_pretrained(str(write_judge(plan)), options)
    return SePerScorer(load_sampler(plan, device, dtype, **more), judge, prompt="brief")


def demo_questions(count: int) -> list[Query]:
    """Return questions of the demo with two passages each."""
    corpus = read_corpus(CORPUS)
    passages = list(corpus.values())
    asked = read_queries(QUESTIONS, corpus).queries[:count]
    return [
        Query(each.id, each.question, each.answers, tuple(passages[2 * place : 2 * place + 2]))
        for place, each in enumerate(asked)
    ]


def demo_prompts(count: int) -> list[str]:
    """Return prompts of unequal lengths."""
    passages: list[Passage] = list(read_corpus(CORPUS).values())
    return [
        f"{passages[place % len(passages)].text[: 40 + 17 * (place % 23)]}\n{PREFIX}number {place}?\nAnswer:"
        for place in range(count)
    ]
