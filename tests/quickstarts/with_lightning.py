"""Learns which of twelve notes a noisy clip plays, with Lightning."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """Half a second of sound each, turned into a spectrogram when it is asked for."""

    def __len__(self):
        return 3200

    def __getitem__(self, index):
        note = index % 12
        seconds = torch.arange(8000) / 16_000
        sound = torch.sin(seconds * 6.283 * 220 * 2 ** (note / 12)) + torch.randn(8000)
        window = torch.hann_window(400)
        heard = torch.stft(sound, 400, hop_length=160, window=window, return_complex=True)
        return heard.abs().log1p()[:64], note


class Listener(lightning.LightningModule):
    """One convolution and a mean over time."""

    def __init__(self):
        super().__init__()
        ear = [nn.Conv1d(64, 64, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()]
        self.model = nn.Sequential(*ear, nn.Linear(64, 12))

    def training_step(self, batch):
        spectrograms, notes = batch
        return nn.functional.cross_entropy(self.model(spectrograms), notes)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def main():
    torch.set_num_threads(1)  # so small a model gains nothing from more
    loader = DataLoader(Clips(), batch_size=16, shuffle=True)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.fit(Listener(), loader)


if __name__ == "__main__":
    main()
