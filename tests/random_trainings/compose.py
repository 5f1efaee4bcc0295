"""From a seed to the text of a training script."""

from __future__ import annotations

import random

from tests.random_trainings.batches import add_batches
from tests.random_trainings.draft import Draft, indent, joined, names, tidy, written
from tests.random_trainings.extras import add_extras
from tests.random_trainings.models import add_model, add_rollout, add_step
from tests.random_trainings.plan import Plan, draw
from tests.random_trainings.records import add_records

# The script's own stopwatch: a list of named instants, written where the environment says.
CLOCK = """
marks = []


def $mark(name):
    marks.append((name, time.perf_counter()))


def finish():
    $mark("end")
    if os.environ.get("TRUTH_FILE"):
        with open(os.environ["TRUTH_FILE"], "w") as out:
            json.dump(marks, out)
"""
TITLES = {
    "mlp": ["A small network on a table of numbers.", "Tabular classification.", "train.py"],
    "conv": ["Small pictures, small network.", "CNN baseline", "Image classifier, first try."],
    "transformer": ["A little transformer that guesses the next token.", "Language model (char level)."],
    "lstm": ["LSTM language model.", "Sequence model with a recurrent net."],
    "bag": ["Sparse features over two processes.", "Click model with a large table."],
}


def compose(seed: int) -> str:
    """The script of a seed: always the same text."""
    return script(draw(seed))


def script(plan: Plan) -> str:
    """The text of a plan."""
    choice = random.Random(f"author {plan.seed}")
    draft = Draft()
    draft.needs("import json", "import os", "import time", "import torch")
    if plan.step == "rl":
        add_model(draft, plan, choice)
        add_rollout(draft, plan, choice)
        draft.constant("SHOW", 10)
        draft.each_step('if $step % SHOW == 0:\n    print(f"update {$step}")')
    else:
        add_records(draft, plan, choice)
        add_batches(draft, plan, choice)
        add_model(draft, plan, choice)
        add_step(draft, plan, choice)
        add_extras(draft, plan, choice)
    if plan.focus == "straggler":
        _uneven(draft, plan)
    return written(_assembled(draft, plan, choice), choice, names(choice))


def _uneven(draft: Draft, plan: Plan) -> None:
    """The second rank's records are longer, and Python reads them."""
    draft.constant("LONGER", 960_000 + 160_000 * (plan.seed % 7), "straggler")
    draft.body.insert(
        0,
        tidy("""
        # long documents lie in the second shard
        length = 0
        for word in range(LONGER if rank else 0):
            length = (length * 31 + word) & 0xFFFF
        """),
    )


LOOPS = {
    "epochs": """
        $step = 0
        for epoch in range(EPOCHS):
            $mark("ask")
            for {pair} in {source}:
                $mark("got")
                {body}
                $step += 1
                $mark("ask")
            $mark("over")
        """,
    "stream": """
        $mark("ask")
        for $step, ({pair}) in enumerate($source):
            $mark("got")
            {body}
            $mark("ask")
        $mark("over")
        """,
    "next": """
        iterator = iter($source)
        for $step in range(STEPS):
            $mark("ask")
            {take}
            $mark("got")
            {body}
        """,
    "call": """
        for $step in range(STEPS):
            $mark("ask")
            $x, $y = $get_batch(BATCH)
            $mark("got")
            {body}
        """,
    "slices": """
        for $step in range(STEPS):
            $mark("ask")
            start = $step * BATCH % (ROWS - BATCH)
            chosen = order[start : start + BATCH]
            $x, $y = all_x[chosen], all_y[chosen]
            $mark("got")
            {body}
        """,
    "rl": """
        for $step in range(STEPS):
            $mark("got")
            {body}
        """,
}
RESTART = """
try:
    {pair} = next(iterator)
except StopIteration:
    iterator = iter($source)
    {pair} = next(iterator)
"""
EPOCH = """
def $loop({state}, $step):
    $mark("ask")
    for {pair} in $source:
        $mark("got")
        {body}
        $step += 1
        $mark("ask")
    $mark("over")
    return $step
"""


def _filled(text: str, **blocks: str) -> str:
    """The text with each `{block}` replaced, at the block's own indentation."""
    lines = []
    for line in tidy(text).splitlines():
        bare = line.strip()
        name = bare[1:-1] if bare.startswith("{") and bare.endswith("}") else None
        if name in blocks:
            lines.append(indent(blocks[name], (len(line) - len(bare)) // 4))
            continue
        for key, value in blocks.items():
            line = line.replace("{%s}" % key, value)
        lines.append(line)
    return "\n".join(lines)


def _blocks(draft: Draft, plan: Plan) -> dict[str, str]:
    pair = "$x, $y, _" if plan.cost == "fields" else "$x, $y"
    source = "$source"
    if plan.access == "generator":
        source = (
            "$generate(STEPS // EPOCHS, BATCH)"
            if plan.maker == "loop" and plan.loop == "epochs"
            else "$source"
        )
    endless = plan.access != "map" and plan.access != "iterable"
    take = f"{pair} = next(iterator)" if endless else tidy(RESTART).replace("{pair}", pair)
    return {"pair": pair, "source": source, "take": take, "body": joined(draft.body)}


def _assembled(draft: Draft, plan: Plan, choice: random.Random) -> str:
    blocks = _blocks(draft, plan)
    setup = joined(draft.setup)
    if plan.threads and plan.launcher != "torchrun":
        setup = f'if "threads" not in SKIP:\n    torch.set_num_threads({plan.threads})\n{setup}'
    setup = f"torch.manual_seed({choice.randint(0, 99)})\n{setup}"
    loop = f'$mark("start")\n{_filled(LOOPS[plan.loop], **blocks)}\nfinish()'
    layout = LAYOUTS.get(plan.layout, _in_main)
    if plan.layout == "epoch" and blocks["source"] != "$source":
        layout = _in_functions
    if plan.layout == "ranks":
        draft.needs("import torch.distributed as dist")
        tail = _ranks(setup, loop, plan, draft)
    else:
        tail = layout(setup, loop, draft, blocks)
    constants = _constants(draft, choice)
    draft_imports = sorted(draft.imports, key=lambda line: (not line.startswith("import"), line))
    title = choice.choice(TITLES[plan.model])
    head = f'"""{title}"""\n' if choice.random() < 0.6 else f"# {title}\n"
    skip = '# parts of the work that a run leaves out\nSKIP = os.environ.get("WITHOUT", "").split(",")\n'
    return "\n\n".join(
        [head + joined(draft_imports), f"{skip}{constants}", tidy(CLOCK), *_spaced(draft.definitions), tail]
    )


def _spaced(definitions: list[str]) -> list[str]:
    return [f"\n{text}" for text in definitions]


def _constants(draft: Draft, choice: random.Random) -> str:
    """Numbers at the top of the file, or arguments that set them."""
    if choice.random() < 0.6:
        return joined(draft.constants)
    draft.needs("import argparse")
    given, rest = [], []
    for line in draft.constants:
        name, _, value = line.partition(" = ")
        (given if name in ("STEPS", "EPOCHS", "BATCH", "RATE") else rest).append((name, value))
    kinds = {"RATE": "float"}
    options = "\n".join(
        f'parser.add_argument("--{name.lower()}", type={kinds.get(name, "int")}, default={value})'
        for name, value in given
    )
    taken = "\n".join(f"{name} = options.{name.lower()}" for name, _ in given)
    plain = "\n".join(f"{name} = {value}" for name, value in rest)
    return f"\nparser = argparse.ArgumentParser()\n{options}\noptions = parser.parse_args()\n{taken}\n{plain}"


def _flat(setup: str, loop: str, draft: Draft, blocks: dict[str, str]) -> str:
    return f"\n{setup}\n\n{loop}"


def _in_main(setup: str, loop: str, draft: Draft, blocks: dict[str, str]) -> str:
    return f"\ndef $main():\n{indent(setup)}\n{indent(loop)}\n\n\n{GUARD}    $main()"


def _in_functions(setup: str, loop: str, draft: Draft, blocks: dict[str, str]) -> str:
    state = ", ".join(draft.state)
    train = f"def $loop({state}):\n{indent(loop)}"
    return f"\n{train}\n\n\ndef $main():\n{indent(setup)}\n    $loop({state})\n\n\n{GUARD}    $main()"


def _in_class(setup: str, loop: str, draft: Draft, blocks: dict[str, str]) -> str:
    kept = "\n".join(f"self.{name.lstrip('$')} = {name}" for name in draft.state)
    taken = "\n".join(f"{name} = self.{name.lstrip('$')}" for name in draft.state)
    text = f"class $Trainer:\n    def __init__(self):\n{indent(setup, 2)}\n{indent(kept, 2)}"
    text = f"{text}\n\n    def $loop(self):\n{indent(taken, 2)}\n{indent(loop, 2)}"
    return f"\n{text}\n\n\n{GUARD}    $Trainer().$loop()"


def _by_epoch(setup: str, loop: str, draft: Draft, blocks: dict[str, str]) -> str:
    state = ", ".join(draft.state)
    one = _filled(EPOCH, state=state, **blocks)
    many = (
        f'$step = 0\n$mark("start")\nfor epoch in range(EPOCHS):\n    $step = $loop({state}, $step)\nfinish()'
    )
    return f"\n{one}\n\n\ndef $main():\n{indent(setup)}\n{indent(many)}\n\n\n{GUARD}    $main()"


GUARD = 'if __name__ == "__main__":\n'
LAYOUTS = {
    "flat": _flat,
    "main": _in_main,
    "functions": _in_functions,
    "class": _in_class,
    "epoch": _by_epoch,
}

SPAWNED = """
def $main(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{{folder}}/meet", rank=rank, world_size=2)
{work}
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn($main, (folder,), nprocs=2)
"""
TORCHRUN = """
def $main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
{work}
    dist.destroy_process_group()


if __name__ == "__main__":
    if "LOCAL_RANK" in os.environ:
        $main()
    else:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
        sys.exit(subprocess.call([*launch, os.path.abspath(__file__), *sys.argv[1:]]))
"""


def _ranks(setup: str, loop: str, plan: Plan, draft: Draft) -> str:
    work = indent(f"{setup}\n{loop}".replace("finish()", "if rank == 0:\n    finish()"))
    if plan.launcher == "spawn":
        draft.needs("import tempfile", "import torch.multiprocessing")
        return SPAWNED.replace("{{", "{").replace("}}", "}").replace("{work}", work)
    draft.needs("import subprocess", "import sys")
    return TORCHRUN.replace("{work}", work)
