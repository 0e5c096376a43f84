"""Tiny random models as folders: what most tests load instead of real ones."""

import json
import shutil
from pathlib import Path

import torch

SMALL = 8000  # tokens of a small vocabulary; whole ones take most of the time to load


def make_reader(folder: Path, whole: bool = False) -> Path:
    """Write a random two-layer Llama with the first tokens of the embedded reader's tokenizer, or all."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from seper_reward.reader.loading import embedded_reader_folder

    tokenizer = AutoTokenizer.from_pretrained(embedded_reader_folder())
    if not whole:
        tokenizer = first_tokens(tokenizer, folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id, tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    if not whole:  # halves of characters and control tokens are as rare as with all tokens
        odd = [at for at in range(SMALL) if "\ufffd" in tokenizer.decode([at])]
        controls = set(tokenizer.added_tokens_decoder) - {tokenizer.eos_token_id}
        model.get_input_embeddings().weight.data[[*odd, *controls]] *= 0.1
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def first_tokens(tokenizer, folder: Path):
    """Return a tokenizer with the ``SMALL`` first tokens of another, which are letters and frequent words."""
    from transformers import AutoTokenizer

    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer.json"
    data = json.loads(path.read_text())
    model = data["model"]
    model["vocab"] = {text: at for text, at in model["vocab"].items() if at < SMALL}
    if "merges" in model:
        model["merges"] = [pair for pair in model["merges"] if "".join(pair) in model["vocab"]]
    path.write_text(json.dumps(data))
    return AutoTokenizer.from_pretrained(folder)


def save_encoder(kind, folder: Path, whole: bool, **config) -> None:
    """Write a random two-layer BERT with the first tokens of the embedded encoder's tokenizer, or all."""
    from transformers import AutoTokenizer, BertConfig

    from seper_reward.runtime.pretrained import embedded_encoder_folder

    tokenizer = AutoTokenizer.from_pretrained(embedded_encoder_folder())
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = kind(BertConfig(vocab_size=len(tokenizer), **sizes, **config))
    if not whole:
        tokenizer = first_tokens(tokenizer, folder)
        model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_entailment(folder: Path, whole: bool = False) -> Path:
    """Write a random two-layer BERT classifier whose label order differs from ours."""
    from transformers import BertForSequenceClassification

    torch.manual_seed(1)
    save_encoder(
        BertForSequenceClassification, folder, whole, num_labels=3,
        id2label={0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"},
        label2id={"CONTRADICTION": 0, "NEUTRAL": 1, "ENTAILMENT": 2}, initializer_range=0.5,
    )  # fmt: skip
    return folder


def make_encoder(folder: Path, whole: bool = False) -> Path:
    """Write a random two-layer BERT with mean pooling, for sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    torch.manual_seed(2)
    save_encoder(BertModel, folder / "base", whole, max_position_embeddings=128, initializer_range=0.3)
    word = Transformer(str(folder / "base"), max_seq_length=128)
    SentenceTransformer(modules=[word, Pooling(32)], device="cpu").save_pretrained(str(folder / "model"))
    return folder / "model"


def without_dropout(encoder: Path, folder: Path) -> Path:
    """Copy a folder of a BERT without dropout, whose noise belongs to a process."""
    shutil.copytree(encoder, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"), 0.0)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def make_two_encoders(encoder: Path, folder: Path) -> Path:
    """Write a model with one encoder for questions and another for passages, a prompt for each, and dot products."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router

    queries, passages = (SentenceTransformer(str(encoder), device="cpu") for _ in range(2))
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in queries.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    router = Router.for_query_document([*queries], [*passages])
    prompts = {"query": "query: ", "document": "passage: "}
    model = SentenceTransformer(modules=[router], prompts=prompts, similarity_fn_name="dot", device="cpu")
    model.save_pretrained(str(folder))
    return folder


def lane_rows(count: int = 24) -> list[dict[str, object]]:
    """Return questions with two or three passages of their own each, one of them relevant."""
    return [
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
        for number in range(count)
    ]
