"""What one seed's training is made of: every choice of the grammar, drawn before a line is written."""

from __future__ import annotations

import random
from dataclasses import dataclass

# What is meant to take most of the time, and how often. Whether it does is measured, never assumed.
FOCI = {
    "python": 9, "numpy": 6, "torch": 6, "sleep": 8, "lock": 3, "disk": 9, "network": 6, "rows": 3,
    "fields": 3, "collate": 3, "index": 4, "respawn": 3, "environment": 6, "log": 6, "checkpoint": 6,
    "gc": 3, "metrics": 4, "temporaries": 4, "evaluation": 6, "comm": 3, "straggler": 2, "model": 14,
}  # fmt: skip
INPUTS = "python numpy torch sleep lock disk network rows fields collate".split()
EXTRAS = "log checkpoint gc metrics temporaries evaluation".split()

# Milliseconds of one step of 32 samples on two cores, measured once: they size the parts against each other.
MODELS = {
    "mlp": {128: 0.4, 512: 1.1, 1024: 4.6, 2048: 12.3},
    "conv": {8: 1.3, 16: 1.7, 32: 3.8, 64: 12.0},
    "transformer": {32: 4.0, 64: 9.0, 128: 18.0},
    "lstm": {64: 4.0, 128: 7.0, 256: 15.0},
    "bag": {64: 4.0},
}
FLAVOURS = {"mlp": "table", "conv": "image", "transformer": "tokens", "lstm": "tokens", "bag": "ids"}


# Milliseconds a sample: the least that a cost can be, and what reading and stacking one takes anyway.
LEAST_MS = {"torch": 0.3, "numpy": 0.09, "sleep": 0.22, "lock": 0.22, "network": 1.4, "disk": 0.1}
ORDINARY_MS = {"memory": 0.02, "files": 0.06, "memmap": 0.02, "direct": 0.02, "http": 0.02, "none": 0.0}


@dataclass(frozen=True)
class Plan:
    """One training. ``cost_ms`` is the input's work for a batch, ``extras`` holds milliseconds a step."""

    seed: int
    focus: str
    close: bool
    seconds: float
    model: str
    size: int
    batch: int
    optimizer: str
    step: str
    loop: str
    store: str
    access: str
    maker: str
    workers: int
    start: str
    cost: str
    cost_ms: float
    extras: dict[str, float]
    held_out: str
    threads: int | None
    launcher: str
    layout: str
    model_ms: float
    steps: int
    epochs: int

    @property
    def flavour(self) -> str:
        """What a sample is."""
        return FLAVOURS[self.model]


def draw(seed: int) -> Plan:
    """The plan of a seed: the same on every machine."""
    choice = random.Random(f"training {seed}")
    focus = choice.choices(list(FOCI), list(FOCI.values()))[0]
    close = focus != "model" and choice.random() < 0.25
    launcher = choice.choice(["spawn", "torchrun"]) if focus in ("comm", "straggler") else "none"
    step = _step(choice, focus, launcher)
    model = _model(choice, focus, step)
    size = _size(choice, model, focus)
    batch = _batch(choice, focus)
    threads = 1 if launcher == "spawn" else choice.choice([None, None, None, None, 1, 4])
    model_ms = MODELS[model][size] * (batch / 32) ** 0.8 * {"closure": 6, "gan": 2.2}.get(step, 1.0)
    model_ms *= 0.2 if focus == "rows" else 1.0  # narrow rows, many of them
    model_ms *= 1.6 if threads == 1 and size == max(MODELS[model]) else 1.0
    ratio = choice.uniform(0.6, 1.4) if close else choice.uniform(2.5, 6.0)
    main_ms = max(ratio * (model_ms + 0.4), 1.5)
    cost = focus if focus in INPUTS or focus in ("index", "respawn") else _second_cost(choice, launcher, step)
    cost_ms = main_ms if cost == focus else choice.uniform(0.1, 0.35) * model_ms
    access, maker, workers, store = _source(choice, cost, cost == focus, launcher, step)
    if maker == "workers" and cost == focus:
        cost_ms *= workers if cost in ("sleep", "network", "disk") else min(workers, 2)
    cost_ms = 0.0 if cost == "rows" else max(cost_ms, LEAST_MS.get(cost, 0.0) * batch)
    extras = _extras(choice, focus, main_ms, model_ms, step)
    loop = _loop(choice, access, maker, step, cost)
    seconds = _seconds(choice)
    in_loop = (cost_ms + ORDINARY_MS[store] * batch) / (workers if maker == "workers" else 1)
    step_ms = model_ms + in_loop + sum(extras.values()) + (0.3 if launcher == "none" else 40)
    return Plan(
        seed=seed,
        focus=focus,
        close=close,
        seconds=round(seconds, 1),
        model=model,
        size=size,
        batch=batch,
        optimizer=_optimizer(choice, step),
        step=step,
        loop=loop,
        store=store,
        access=access,
        maker=maker,
        workers=workers,
        start="spawn" if cost == "respawn" else "fork",
        cost=cost,
        cost_ms=round(cost_ms, 2),
        extras={name: round(ms, 2) for name, ms in extras.items()},
        held_out=_held_out(choice, access, cost),
        threads=threads,
        launcher=launcher,
        layout=_layout(choice, launcher, cost, loop, step),
        model_ms=round(model_ms, 2),
        steps=_steps(seconds, step_ms, cost),
        epochs=_epochs(choice, seconds, maker, cost) if loop == "epochs" else 1,
    )


def _steps(seconds: float, step_ms: float, cost: str) -> int:
    """As many as fit by our figures, which are a little too high; workers that start take the rest."""
    share = 0.4 if cost in ("index", "respawn") else 1.2
    return max(60, min(6000, round(1000 * share * seconds / step_ms)))


def _epochs(choice: random.Random, seconds: float, maker: str, cost: str) -> int:
    if cost in ("index", "respawn"):
        return max(4, round(seconds)) if cost == "index" else max(3, round(seconds / 3))
    return choice.randint(2, 5) if maker != "workers" else choice.choice([1, 1, 2])


def _step(choice: random.Random, focus: str, launcher: str) -> str:
    if focus == "environment":
        return "rl"
    if launcher != "none":
        return choice.choice(["standard", "accumulate"]) if focus == "comm" else "standard"
    kinds = {"standard": 8, "accumulate": 3, "closure": 1, "compiled": 2, "manual": 3, "gan": 2}
    if focus in ("metrics", "evaluation", "rows"):
        del kinds["gan"], kinds["closure"]
    return choice.choices(list(kinds), list(kinds.values()))[0]


def _model(choice: random.Random, focus: str, step: str) -> str:
    if focus in ("comm", "straggler"):
        return "bag"
    if step in ("gan", "rl", "closure") or focus in ("rows", "metrics"):
        return "mlp"
    return choice.choices(["mlp", "conv", "transformer", "lstm"], [4, 3, 2, 2])[0]


def _size(choice: random.Random, model: str, focus: str) -> int:
    sizes = sorted(MODELS[model])
    if focus == "model":
        return choice.choice(sizes[-2:])
    if focus in ("log", "metrics", "rows", "environment"):
        return sizes[0]
    return choice.choice(sizes[:-1] or sizes)


def _batch(choice: random.Random, focus: str) -> int:
    if focus == "rows":
        return choice.choice([512, 1024])
    if focus == "metrics":
        return 256
    if focus == "network":
        return choice.choice([8, 16])
    return choice.choice([16, 32, 32, 64])


def _optimizer(choice: random.Random, step: str) -> str:
    if step == "manual":
        return "none"
    return "lbfgs" if step == "closure" else choice.choice(["sgd", "adamw", "adamw", "momentum"])


def _second_cost(choice: random.Random, launcher: str, step: str) -> str:
    if step == "rl" or launcher != "none" or choice.random() < 0.5:
        return "none"
    return choice.choice(["python", "python", "numpy"])


def _source(
    choice: random.Random, cost: str, main: bool, launcher: str, step: str
) -> tuple[str, str, int, str]:
    """Access, maker, number of workers, and where the records lie."""
    store = {"disk": ["files", "direct", "memmap"], "network": ["http"]}.get(cost)
    store = choice.choice(store or ["memory", "memory", "files", "memmap"])
    if step == "rl":
        return "none", "loop", 0, "none"
    if launcher != "none":
        return choice.choice(["function", "map"]), "loop", 0, "memory"
    if cost in ("rows", "fields", "collate"):
        workers = choice.choice([0, 0, 1, 2])
        return "map", "workers" if workers else "loop", workers, "memory"
    if cost in ("index", "respawn"):
        return "map", "workers", choice.choice([1, 2]), "memory"
    if cost == "lock":
        return choice.choice(["map", "iterable"]), "workers", choice.choice([2, 3]), store
    access = choice.choice(
        ["map", "map", "map", "iterable", "generator", "generator", "function", "function"]
    )
    if cost == "none" and choice.random() < 0.35:
        return "sliced", "loop", 0, "memory"
    if access in ("map", "iterable"):
        maker = choice.choice(["loop", "workers", "workers", "thread"])
    else:
        maker = choice.choice(["loop", "loop", "loop", "thread"])
    workers = 0
    if maker == "workers":
        most = 4 if cost in ("sleep", "network") and main else 2
        workers = choice.randint(1, most)
    return access, maker, workers, store


def _extras(
    choice: random.Random, focus: str, main_ms: float, model_ms: float, step: str
) -> dict[str, float]:
    """Milliseconds a step of each: the one that is meant to dominate, and small ones beside it."""
    extras = {focus: main_ms} if focus in EXTRAS else {}
    if step == "rl" or focus in ("comm", "straggler"):
        return extras
    for name in ("log", "checkpoint", "evaluation"):
        if (
            name not in extras
            and choice.random() < 0.2
            and not (name == "evaluation" and step in ("gan", "closure"))
        ):
            extras[name] = choice.uniform(0.05, 0.25) * model_ms
    return extras


def _held_out(choice: random.Random, access: str, cost: str) -> str:
    """Whether evaluation has a loader of its own over the same records, or batches that are made before."""
    possible = access == "map" and cost not in ("index", "fields", "rows", "respawn", "lock")
    return "loader" if possible and choice.random() < 0.6 else "memory"


def _loop(choice: random.Random, access: str, maker: str, step: str, cost: str) -> str:
    if step == "rl":
        return "rl"
    if access == "sliced":
        return "slices"
    if access == "function" and maker == "loop":
        return "call"
    if cost in ("index", "respawn"):
        return "epochs"
    if maker == "thread":
        return choice.choice(["stream", "next"])
    if access == "generator":
        return choice.choice(["epochs", "stream", "next"])
    return choice.choice(["epochs", "epochs", "epochs", "next"])


def _seconds(choice: random.Random) -> float:
    low, high = choice.choices([(5, 11), (11, 20), (3, 5), (30, 60)], [80, 12, 6, 2])[0]
    return choice.uniform(low, high)


def _layout(choice: random.Random, launcher: str, cost: str, loop: str, step: str) -> str:
    if launcher != "none":
        return "ranks"
    kinds = ["flat", "main", "functions", "functions", "class"]
    if cost == "respawn":
        kinds.remove("flat")
    if loop == "epochs":
        kinds += ["epoch", "epoch"]
    return choice.choice(kinds)
