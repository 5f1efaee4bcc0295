"""Denoising autoencoder for infrared spectra (Lightning)."""
import argparse
import json
import os
import time

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    def __init__(self, array):
        self.array = array

    def __len__(self):
        return len(self.array)

    def __getitem__(self, i):
        return torch.from_numpy(self.array[i])


class SpectraData(L.LightningDataModule):
    def __init__(self, folder, batch_size):
        super().__init__()
        self.folder, self.batch_size = folder, batch_size

    def setup(self, stage=None):
        data = np.load(os.path.join(self.folder, "spectra.npy"))
        data = np.log1p(np.maximum(data, 0))
        self.train_set, self.val_set = Spectra(data[:3200]), Spectra(data[3200:3600])

    def train_dataloader(self):
        return DataLoader(self.train_set, self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, self.batch_size)


class Denoiser(L.LightningModule):
    def __init__(self, channels=2048, hidden=1600, code=128, lr=5e-4):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(),
                                     nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.GELU(), nn.Linear(hidden, hidden),
                                     nn.GELU(), nn.Linear(hidden, channels))

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def training_step(self, batch, batch_idx):
        noisy = batch + 0.05 * torch.randn_like(batch)
        loss = nn.functional.mse_loss(self(noisy), batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.mse_loss(self(batch), batch), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class WeightHistograms(Callback):
    """Distribution of the first and the last layer's weights, for the training diary."""

    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        row = {"step": trainer.global_step, "loss": float(outputs["loss"])}
        for name, layer in (("first", module.encoder[0]), ("last", module.decoder[-1])):
            counts, edges = np.histogram(layer.weight.detach().numpy(), bins=50)
            row[name] = [counts.tolist(), edges.tolist()]
        with open(self.path, "a") as f:
            f.write(json.dumps(row) + "\n")
        if trainer.global_step % 10 == 0:
            print(f"step {trainer.global_step} loss {row['loss']:.5f}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=100)
    args = ap.parse_args()
    L.seed_everything(3)

    runs = os.path.join(args.data, "runs")
    os.makedirs(runs, exist_ok=True)
    keep_going = ModelCheckpoint(dirpath=runs, filename="latest", every_n_train_steps=2,
                                 save_top_k=1, enable_version_counter=False)
    trainer = L.Trainer(max_epochs=args.epochs, accelerator="cpu", logger=False,
                        enable_progress_bar=False, enable_model_summary=False, default_root_dir=runs,
                        callbacks=[keep_going, WeightHistograms(os.path.join(runs, "diary.jsonl"))])
    model = Denoiser()
    data = SpectraData(args.data, args.batch_size)
    t0 = time.perf_counter()
    trainer.fit(model, data)
    seconds = time.perf_counter() - t0
    print("validation loss", float(trainer.callback_metrics["val_loss"]))
    print(f"trained {seconds:.2f}")


if __name__ == "__main__":
    main()
