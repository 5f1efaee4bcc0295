"""What odd users have in common: rows of numbers, a plain loop, and the list of the users."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

torch.set_num_threads(1)
USERS: dict[str, Callable[[], None]] = {}


def user(function: Callable[[], None]) -> Callable[[], None]:
    """List it among the users."""
    USERS[function.__name__] = function
    return function


class Rows(Dataset):
    """Rows of four numbers."""

    def __init__(self, length: int = 40) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return torch.full((4,), float(index))


class Asked(Dataset):
    """Gives back the index that it was asked for, as text."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: Any) -> str:
        return f"{type(index).__name__}:{index!r}"


class Made(Rows):
    """Samples made by a function of the index."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        super().__init__()
        self.make = make

    def __getitem__(self, index: Any) -> Any:
        return self.make(index)


class Yields(Sampler):
    """Yields what it was given."""

    def __init__(self, *things: Any) -> None:
        self.things = things

    def __iter__(self) -> Iterator[Any]:
        return iter(self.things)

    def __len__(self) -> int:
        return len(self.things)


class Delegate:
    """A proxy: all that is not its own is the inner object's, also its class."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "_inner", inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def __class__(self) -> Any:
        return type(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, index: Any) -> Any:
        return self._inner[index]

    def __iter__(self) -> Any:
        return iter(self._inner)


def train(loader: Any, epochs: int = 2, read: Callable[[Any], Any] = lambda batch: batch) -> None:
    """A plain loop; prints the sum of the losses."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    total = 0.0
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            loss = model(read(batch).float().reshape(-1, 4)).square().mean()
            loss.backward()
            optimizer.step()
            total += loss.item()
    print(f"{total:.9e}")


def show(loader: Any, epochs: int = 2) -> None:
    """Print the batches as they are."""
    for _ in range(epochs):
        for batch in loader:
            print(batch)


def collate_list(samples: list[Any]) -> list[Any]:
    """No collation."""
    return samples


def odd_indices(*batches: Any) -> None:
    """The batches of indices in this process, and by a worker."""
    for workers in (0, 1):
        show(
            DataLoader(Asked(), batch_sampler=Yields(*batches), num_workers=workers, collate_fn=collate_list)
        )
