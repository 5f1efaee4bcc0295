"""Who makes a script's batches, and how the loop gets at them."""

from __future__ import annotations

import random

from tests.random_trainings.draft import Draft
from tests.random_trainings.plan import Plan

DATA = "from torch.utils.data import DataLoader, Dataset"


def add_batches(draft: Draft, plan: Plan, choice: random.Random) -> None:
    """``$source``, or ``$get_batch`` where the loop calls a function."""
    draft.constant("BATCH", plan.batch)
    draft.constant("EPOCHS", plan.epochs)
    draft.constant("STEPS", plan.steps)
    if plan.access in ("map", "iterable"):
        _dataset(draft, plan)
        _loader(draft, plan, choice)
    elif plan.access == "generator":
        _generator(draft, plan)
    elif plan.access == "function":
        _function(draft, plan, choice)
    elif plan.access == "sliced":
        _sliced(draft)
    if plan.maker == "thread":
        _thread(draft, plan, choice)


MAP = """
    class $Records(Dataset):
        def __init__(self, size):
            self.size = size

        def __len__(self):
            return self.size

        def __getitem__(self, index):
            return $sample($prepare($read(index)), index)
    """
ITERABLE = """
    class $Records(IterableDataset):
        def __init__(self, size):
            self.size = size

        def __iter__(self):
            info = get_worker_info()
            first, stride = (info.id, info.num_workers) if info else (0, 1)
            pair = None
            for index in range(first, self.size, stride):
                if pair is None or "input" not in SKIP:
                    pair = $sample($prepare($read(index)), index)
                yield pair
    """
FIELDS = """
    class $Records(Dataset):
        def __init__(self, size):
            self.size = size

        def __len__(self):
            return self.size

        def __getitem__(self, index):
            pair = $sample($prepare($read(index)), index)
            # what the annotators left: many short tensors
            return *pair, [torch.full((4,), float(k)) for k in range(FIELDS)]
    """
INDEXED = """
    class $Records(Dataset):
        def __init__(self, size):
            self.size = size
            self.places = None

        def __len__(self):
            return self.size

        def parse_index(self):
            lines = (json.dumps({"id": k, "offset": k * 3072, "name": f"rec-{k}"}) for k in range(ENTRIES))
            places = {}
            for line in lines:
                entry = json.loads(line)
                places[entry["name"]] = (entry["id"], entry["offset"])
            return places

        def __getitem__(self, index):
            # parsed where it is needed: the table does not pickle well
            if self.places is None:
                self.places = self.parse_index()
            return $sample($prepare($read(index)), index)
    """
READY = """
    if "input" in SKIP:
        READY = default_collate([$Records(BATCH)[k] for k in range(BATCH)])
        $Records.__getitems__ = lambda self, indices: READY
    """
COLLATE = """
    def $collate(samples):
        xs = torch.stack([x for x, _ in samples])
        ys = torch.stack([torch.as_tensor(y) for _, y in samples])
        # a mask of what is padding, cell by cell
        mask = []
        for number in range(len(samples)):
            row = []
            for cell in range(CELLS):
                row.append(1 if cell < number * 7 % (CELLS + 1) else 0)
            mask.append(row)
        return xs, ys
    """


def _dataset(draft: Draft, plan: Plan) -> None:
    if plan.access == "iterable":
        draft.needs("from torch.utils.data import DataLoader, IterableDataset, get_worker_info")
        draft.define(ITERABLE)
        return
    draft.needs(DATA)
    if plan.cost == "index":
        draft.needs("import json")
        draft.constant("ENTRIES", round(40_000 + 40_000 * (plan.seed % 7) / 3), "index")
        draft.define(INDEXED)
    elif plan.cost == "fields":
        draft.constant("FIELDS", max(4, round(plan.cost_ms / (0.03 + plan.batch * 0.002))), "input")
        draft.define(FIELDS)
    else:
        draft.define(MAP)
    if plan.launcher == "none" and plan.cost not in ("index", "respawn"):
        draft.needs("from torch.utils.data import default_collate")
        draft.prepare(READY)
    if plan.cost == "collate":
        draft.constant("CELLS", round(plan.cost_ms / plan.batch * 18_000), "input")
        draft.define(COLLATE)


def _loader(draft: Draft, plan: Plan, choice: random.Random) -> None:
    options = ["batch_size=BATCH"]
    if plan.launcher != "none":
        draft.needs("from torch.utils.data import DistributedSampler")
    if plan.access == "map":
        options.append("shuffle=True")
        if plan.maker == "thread":  # or it races the model's first weights for the global generator
            options.append("generator=torch.Generator().manual_seed(3)")
    collate = "$collate" if plan.cost == "collate" else "None"
    if "READY" in "".join(draft.setup):
        options.append(f'collate_fn=(lambda ready: ready) if "input" in SKIP else {collate}')
    if plan.workers:
        options.append(f"num_workers={plan.workers}")
        if plan.cost == "respawn":
            options += ['multiprocessing_context="spawn"', 'persistent_workers="respawn" in SKIP']
        elif plan.cost != "index" and choice.random() < 0.5:
            options.append("persistent_workers=True")
    elif choice.random() < 0.3:
        options.append("num_workers=0")
    options.append("drop_last=True")
    draft.constant("SIZE", "BATCH * (STEPS // EPOCHS)")
    setup = f"$source = DataLoader($Records(SIZE), {', '.join(options)})"
    if plan.launcher != "none":
        setup = f"records = $Records(SIZE * 2)\nshare = DistributedSampler(records)\n{setup}"
        setup = setup.replace("$Records(SIZE), ", "records, ").replace("shuffle=True", "sampler=share")
    draft.prepare(setup, "$source")


def _generator(draft: Draft, plan: Plan) -> None:
    draft.define("""
        def $generate(count, size):
            for first in range(0, count * size, size):
                if first == 0 or "input" not in SKIP:
                    pairs = [$sample($prepare($read(index)), index) for index in range(first, first + size)]
                    xs = torch.stack([x for x, _ in pairs])
                    ys = torch.stack([torch.as_tensor(y) for _, y in pairs])
                yield xs, ys
        """)
    if plan.loop != "epochs":
        draft.prepare("$source = $generate(STEPS, BATCH)", "$source")


def _function(draft: Draft, plan: Plan, choice: random.Random) -> None:
    draft.define("chooser = np.random.default_rng(11)")
    draft.define("ready = []")
    draft.define("""
        def $get_batch(size):
            if ready:
                return ready[0]
            chosen = chooser.integers(0, 1 << 16, size).tolist()
            pairs = [$sample($prepare($read(index)), index) for index in chosen]
            xs, ys = zip(*pairs)
            batch = torch.stack(xs), torch.stack([torch.as_tensor(y) for y in ys])
            if "input" in SKIP:
                ready.append(batch)
            return batch
        """)
    if plan.maker == "thread":
        draft.prepare("$source = ($get_batch(BATCH) for _ in range(STEPS))", "$source")


def _sliced(draft: Draft) -> None:
    draft.prepare(
        """
        pairs = [$sample($prepare($read(index)), index) for index in range(ROWS)]
        all_x = torch.stack([x for x, _ in pairs])
        all_y = torch.stack([torch.as_tensor(y) for _, y in pairs])
        order = torch.randperm(ROWS)
        """,
        "all_x",
        "all_y",
        "order",
    )


FEED = """
    def feed(batches, depth):
        box = queue.Queue(maxsize=depth)

        def work():
            for batch in batches:
                box.put(batch)
            box.put(None)

        threading.Thread(target=work, daemon=True).start()
        while (batch := box.get()) is not None:
            yield batch
    """
FEEDER = """
    class Prefetcher(threading.Thread):
        def __init__(self, batches, depth):
            super().__init__(daemon=True)
            self.batches, self.ready = batches, queue.Queue(depth)
            self.start()

        def run(self):
            for batch in self.batches:
                self.ready.put(batch)
            self.ready.put(None)

        def __iter__(self):
            return self

        def __next__(self):
            batch = self.ready.get()
            if batch is None:
                raise StopIteration
            return batch
    """


def _thread(draft: Draft, plan: Plan, choice: random.Random) -> None:
    draft.needs("import queue", "import threading")
    text, call = choice.choice([(FEED, "feed"), (FEEDER, "Prefetcher")])
    draft.define(text)
    draft.prepare(f"$source = {call}($source, {choice.choice([2, 4, 8])})")
