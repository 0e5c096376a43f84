"""Fixtures: tiny random models for speed, the embedded models for truth, the shared data where present."""

import json
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
from hypothesis import settings

from seper_reward import EntailmentScorer, ResponseSampler, SePerScorer
from seper_reward.reader.sampler import ReaderOptions
from seper_reward.runtime.pretrained import LoadOptions

settings.register_profile("fast", max_examples=50, deadline=None)
settings.load_profile("fast")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(os.environ.get("SEPER_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent; set SEPER_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def tiny_reader(tmp_path_factory) -> Path:
    """A random two-layer Llama with the embedded reader's tokenizer, as a folder."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from seper_reward.reader.loading import embedded_reader_folder

    folder = tmp_path_factory.mktemp("tiny_reader")
    tokenizer = AutoTokenizer.from_pretrained(embedded_reader_folder())
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_entailment(tmp_path_factory) -> Path:
    """A random two-layer BERT classifier whose label order differs from ours, as a folder."""
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    from seper_reward.runtime.pretrained import embedded_encoder_folder

    folder = tmp_path_factory.mktemp("tiny_entailment")
    tokenizer = AutoTokenizer.from_pretrained(embedded_encoder_folder())
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=3,
        id2label={0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"},
        label2id={"CONTRADICTION": 0, "NEUTRAL": 1, "ENTAILMENT": 2},
        initializer_range=0.5,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_sampler(tiny_reader) -> ResponseSampler:
    return ResponseSampler.from_pretrained(
        str(tiny_reader), ReaderOptions(dtype="float32", device="cpu"), num_samples=4, max_new_tokens=8
    )


@pytest.fixture(scope="session")
def tiny_judge(tiny_entailment) -> EntailmentScorer:
    return EntailmentScorer.from_pretrained(str(tiny_entailment), LoadOptions(dtype="float32", device="cpu"))


@pytest.fixture(scope="session")
def tiny_scorer(tiny_sampler, tiny_judge) -> SePerScorer:
    return SePerScorer(tiny_sampler, tiny_judge, prompt="brief")


@pytest.fixture(scope="session")
def plain_sampler() -> ResponseSampler:
    """Return the plain reader: its answers are long enough to be cut."""
    return ResponseSampler.from_pretrained(
        "plain", ReaderOptions(dtype="float32", device="cpu"), num_samples=4, max_new_tokens=12
    )


@pytest.fixture(scope="session")
def embedded_scorer() -> SePerScorer:
    return SePerScorer.from_pretrained(max_new_tokens=12)


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory) -> Path:
    """A random two-layer BERT with mean pooling, as a sentence-transformers folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import AutoTokenizer, BertConfig, BertModel

    from seper_reward.runtime.pretrained import embedded_encoder_folder

    folder = tmp_path_factory.mktemp("tiny_encoder")
    tokenizer = AutoTokenizer.from_pretrained(embedded_encoder_folder())
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=0.3,
    )
    BertModel(config).save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    word = Transformer(str(folder / "base"), max_seq_length=128)
    SentenceTransformer(modules=[word, Pooling(32)], device="cpu").save_pretrained(str(folder / "model"))
    return folder / "model"


@pytest.fixture
def lane_questions(tmp_path) -> Path:
    """24 questions with two or three passages of their own each, one of them relevant, as a file."""
    rows = [
        {
            "id": f"q{number}",
            "question": f"Who owns house {number} of the lane?",
            "answers": [f"Owner {number}"],
            "passages": [
                {"id": f"p{number}", "text": f"House {number} belongs to Owner {number}.", "relevant": True},
                {"id": f"x{number}", "text": f"Sheep {number} graze on the hill.", "relevant": False},
                {"id": f"y{number}", "text": f"House {number} was blue.", "relevant": False},
            ][: 3 - number % 2],
        }
        for number in range(24)
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def serve(tiny_sampler):
    """Return a function that starts a server, by default over the tiny reader."""
    from contextlib import ExitStack

    from tests.completions_server import CompletionsServer

    with ExitStack() as stack:
        yield lambda sampler=tiny_sampler, **behaviour: stack.enter_context(
            CompletionsServer(sampler, **behaviour).running()
        )
