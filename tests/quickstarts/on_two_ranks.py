"""Learns which of twelve notes a noisy clip plays, on several ranks."""

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Clips(Dataset):
    """Half a second of sound each, turned into a spectrogram when it is asked for."""

    def __len__(self):
        return 6400

    def __getitem__(self, index):
        note = index % 12
        seconds = torch.arange(8000) / 16_000
        sound = torch.sin(seconds * 6.283 * 220 * 2 ** (note / 12)) + torch.randn(8000)
        window = torch.hann_window(400)
        heard = torch.stft(sound, 400, hop_length=160, window=window, return_complex=True)
        return heard.abs().log1p()[:64], note


def main():
    distributed.init_process_group("gloo")
    clips = Clips()
    sampler = DistributedSampler(clips)
    loader = DataLoader(clips, batch_size=16, sampler=sampler)
    ear = [nn.Conv1d(64, 64, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()]
    model = DistributedDataParallel(nn.Sequential(*ear, nn.Linear(64, 12)))
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for spectrograms, notes in loader:
            loss = nn.functional.cross_entropy(model(spectrograms), notes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if distributed.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
