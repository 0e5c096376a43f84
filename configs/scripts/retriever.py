"""Fine-tune a bi-encoder on ΔSePer labels with sentence-transformers alone, without importing this package.

seper-reward label --input questions.jsonl --output_dir runs/label
seper-reward export --labels runs/label --format sentence-transformers-triplets --output triplets.jsonl
python retriever.py --triplets triplets.jsonl --model sentence-transformers/all-MiniLM-L6-v2
"""

import argparse

from datasets import load_dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

parser = argparse.ArgumentParser()
parser.add_argument("--triplets", required=True, help="File of anchor, positive, negative and label.")
parser.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2", help="Hub id or folder.")
parser.add_argument("--epochs", type=float, default=1)
parser.add_argument("--output_dir", default="runs/st-retriever")
options = parser.parse_args()

triplets = load_dataset("json", data_files=options.triplets, split="train").remove_columns("label")
questions = triplets.unique("anchor")
held_out = set(questions[::8])  # every eighth question, with all its triplets
train = triplets.filter(lambda row: row["anchor"] not in held_out)
test = triplets.filter(lambda row: row["anchor"] in held_out)

model = SentenceTransformer(options.model)
evaluator = TripletEvaluator(test["anchor"], test["positive"], test["negative"], name="held_out")
print("before", evaluator(model))
trainer = SentenceTransformerTrainer(
    model,
    train_dataset=train,
    loss=MultipleNegativesRankingLoss(model),
    args=SentenceTransformerTrainingArguments(
        options.output_dir, num_train_epochs=options.epochs, per_device_train_batch_size=32, learning_rate=2e-5,
        batch_sampler="no_duplicates",  # a question's other positives are no negatives
        report_to="none",
    ),
)  # fmt: skip
trainer.train()
print("after", evaluator(model))
model.save_pretrained(f"{options.output_dir}/model")  # SentenceTransformer(...) loads it
