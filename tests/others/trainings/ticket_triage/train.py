"""Route support tickets to one of five queues with a small BERT and the Hugging Face Trainer."""
import argparse
import os
import time

import numpy as np
import torch
from transformers import (BertConfig, BertForSequenceClassification, Trainer, TrainerCallback,
                          TrainingArguments, set_seed)

QUEUES = ["billing", "delivery", "account", "returns", "technical"]


class Tickets(torch.utils.data.Dataset):
    def __init__(self, path):
        with np.load(path) as f:
            self.columns = {k: torch.from_numpy(f[k]) for k in ("input_ids", "attention_mask", "labels")}

    def __len__(self):
        return len(self.columns["labels"])

    def __getitem__(self, i):
        return {k: v[i] for k, v in self.columns.items()}


def compute_metrics(pred):
    guess = np.argmax(pred.predictions, axis=1)
    truth = pred.label_ids
    scores = {"accuracy": float((guess == truth).mean())}
    for q, name in enumerate(QUEUES):
        tp = int(((guess == q) & (truth == q)).sum())
        denom = int((guess == q).sum() + (truth == q).sum())
        scores[f"f1_{name}"] = 2 * tp / max(denom, 1)
    return scores


class PrintBest(TrainerCallback):
    def __init__(self):
        self.best = 0.0

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        acc = metrics["eval_accuracy"]
        if acc > self.best:
            self.best = acc
            print(f"  new best accuracy {acc:.4f} at step {state.global_step}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True)
    ap.add_argument("--epochs", type=float, default=1.0)
    ap.add_argument("--lr", type=float, default=5e-4)
    args = ap.parse_args()
    set_seed(42)

    train_set = Tickets(os.path.join(args.data, "train.npz"))
    val_set = Tickets(os.path.join(args.data, "val.npz"))
    config = BertConfig(vocab_size=4000, hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=512, max_position_embeddings=64, num_labels=len(QUEUES))
    model = BertForSequenceClassification(config)

    training_args = TrainingArguments(
        output_dir=os.path.join(args.data, "triage_out"),
        num_train_epochs=args.epochs,
        learning_rate=args.lr,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=8,
        eval_strategy="steps",
        eval_steps=10,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=42,
    )
    trainer = Trainer(model=model, args=training_args, train_dataset=train_set, eval_dataset=val_set,
                      compute_metrics=compute_metrics, callbacks=[PrintBest()])
    t0 = time.perf_counter()
    result = trainer.train()
    seconds = time.perf_counter() - t0
    print(f"final training loss {result.training_loss:.4f} after {result.global_step} steps")
    print(f"trained {seconds:.2f}")


if __name__ == "__main__":
    main()
