"""Users who treat loaders, optimizers and modules oddly."""

import collections
import contextlib
import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.agent.odd_users.rows import Made, Rows, train, user


class Twice(DataLoader):
    """Iterates itself twice, and counts."""

    def __iter__(self) -> Any:
        for _ in range(2):
            yield from super().__iter__()

    def __len__(self) -> int:
        return 2 * super().__len__()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no {name} here")


@user
def loaders_of_a_subclass() -> None:
    loader = Twice(Rows(), batch_size=4)
    train(loader)
    print(len(loader), hasattr(loader, "nothing"))


@user
def loaders_copied_and_pickled() -> None:
    loader = DataLoader(Rows(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(2))
    train(loader, 1)
    for other in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        train(other, 1)


@user
def iterators_side_by_side_and_left() -> None:
    loader = DataLoader(Rows(), batch_size=2)
    first, second = iter(loader), iter(loader)
    print([float(next(one).sum()) for _ in range(6) for one in (first, second)])
    del first
    print(sum(1 for _ in second), next(second, "over"))
    for number, _ in enumerate(loader):
        if number == 3:
            break
    print([float(batch.sum()) for batch, _ in zip(loader, range(2), strict=False)])


@user
def iterators_in_threads() -> None:
    sums: list[float] = []

    def work() -> None:
        sums.extend(float(batch.sum()) for batch in DataLoader(Rows(), batch_size=4))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    print(sorted(sums))


@user
def loaders_that_somebody_else_patches() -> None:
    original = DataLoader.__iter__

    def counted(self: Any) -> Any:
        print("patched")
        return original(self)

    DataLoader.__iter__ = counted  # type: ignore[method-assign]
    try:
        train(DataLoader(Rows(), batch_size=4))
    finally:
        DataLoader.__iter__ = original  # type: ignore[method-assign]
    train(DataLoader(Rows(), batch_size=4))


@user
def backward_by_other_names() -> None:
    weight = torch.ones(4, requires_grad=True)
    backward, grad = torch.autograd.backward, torch.autograd.grad
    for number, batch in enumerate(DataLoader(Rows(), batch_size=2)):
        loss = (batch * weight).sum()
        if number % 4 == 0:
            backward(tensors=[loss], inputs=[weight])
        elif number % 4 == 1:
            backward([loss, (weight * 2).sum()], grad_tensors=[torch.tensor(1.0), torch.tensor(2.0)])
        elif number % 4 == 2:
            print([one.tolist() for one in grad(loss, weight, create_graph=True)])
        else:
            loss.backward(inputs=weight, retain_graph=True)
            loss.backward()
    print(weight.grad.tolist() if weight.grad is not None else None)
    print([one.tolist() for one in grad(weight * 2, weight, torch.eye(4), is_grads_batched=True)])


@user
def backward_that_fails() -> None:
    weight = torch.ones(4, requires_grad=True)
    for batch in DataLoader(Rows(), batch_size=2):
        loss = (batch * weight).sum()
        loss.backward()
        with contextlib.suppress(RuntimeError):
            loss.backward()
    try:
        torch.ones(2).sum().backward()
    except RuntimeError as error:
        print(error)


class Stubborn(torch.optim.SGD):
    """Refuses unknown attributes but those that torch asks for, and prints."""

    def __getattr__(self, name: str) -> Any:
        if name in ("grad_scale", "found_inf"):
            raise AttributeError(name)
        raise RuntimeError(name)

    def step(self, closure: Any = None, *, note: str = "") -> Any:
        print("step", note) if note else None
        return super().step(closure)


class Closure:
    """A closure that refuses unknown attributes."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call

    def __call__(self) -> Any:
        return self.call()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # which functools.wraps asks for
            raise AttributeError(name)
        raise RuntimeError(name)


@user
def optimizers_with_closures_of_their_own() -> None:
    weight = torch.nn.Parameter(torch.ones(4))
    optimizers = [Stubborn([weight], lr=0.01), torch.optim.LBFGS([weight], lr=0.01, max_iter=3)]
    for number, batch in enumerate(DataLoader(Rows(), batch_size=2)):

        def close(batch: Any = batch) -> Any:
            weight.grad = None
            loss = (batch * weight).square().sum()
            loss.backward()
            return loss

        optimizers[number % 2].step(Closure(close))
    print([f"{one:.6e}" for one in weight.tolist()])


class Module(torch.nn.Module):
    """Overrides what hooks might call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def parameters(self, recurse: bool = True) -> Any:
        print("parameters asked for")
        return super().parameters(recurse)

    def forward(self, rows: Any) -> Any:
        pickle.dumps(self)
        return rows * self.weight


@user
def modules_that_print_when_asked() -> None:
    module = Module()
    for _ in range(40):
        module(torch.ones(2, 4)).sum().backward()
    for _ in range(3):
        for batch in DataLoader(Rows(20), batch_size=2):
            module(batch).sum().backward()
        with torch.no_grad():
            for batch in DataLoader(Rows(6), batch_size=2):
                module(batch)
    print(module.weight.grad.tolist(), len(module._forward_hooks), len(module._forward_pre_hooks))


@user
def modes_that_hear_everything() -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    heard: collections.Counter[str] = collections.Counter()

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            heard["function " + getattr(func, "__name__", "")] += 1
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            heard["operator " + str(func)] += 1
            return func(*args, **(kwargs or {}))

    for mode in (Functions, Operators):
        with mode():
            train(DataLoader(Made(lambda k: torch.ones(12, dtype=torch.int64)), batch_size=4))
    print(sorted(heard.items()))
