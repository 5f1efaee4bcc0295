"""Learns who wrote a text, with the Trainer of Hugging Face and a tiny BERT that is made on the spot."""

import random
import re
import zlib

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Texts(Dataset):
    """Texts of two writers, cut into tokens when they are asked for."""

    def __init__(self):
        draw = random.Random(0)
        words = [["ship", "sea", "wind", "the"], ["rose", "song", "wind", "the"]]
        self.texts = [" ".join(draw.choices(words[index % 2], k=8000)) for index in range(800)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        tokens = [zlib.crc32(word.encode()) % 1000 for word in re.findall(r"\w+", self.texts[index].lower())]
        return {"input_ids": torch.tensor(tokens[:64]), "labels": index % 2}


def main():
    torch.set_num_threads(1)  # so small a model gains nothing from more
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 128}
    model = BertForSequenceClassification(BertConfig(vocab_size=1000, **sizes))
    arguments = TrainingArguments(
        output_dir="trained",
        num_train_epochs=4,
        per_device_train_batch_size=8,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
    )
    Trainer(model=model, args=arguments, train_dataset=Texts()).train()


if __name__ == "__main__":
    main()
