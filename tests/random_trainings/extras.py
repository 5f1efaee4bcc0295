"""What a loop does besides learning: logs, checkpoints, metrics, evaluation, collection of garbage."""

from __future__ import annotations

import random

from tests.random_trainings.draft import Draft, indent, tidy
from tests.random_trainings.plan import Plan

PRINT = """
    if $step % SHOW == 0:
        print(f"{PREFIX} {$step} {$loss.item():.2f}")
    """


def add_extras(draft: Draft, plan: Plan, choice: random.Random) -> None:
    """All extras of the plan, in an order of their author's."""
    draft.constant("SHOW", max(5, plan.steps // choice.choice([4, 8, 12])))
    wanted = list(plan.extras)
    choice.shuffle(wanted)
    for name in wanted:
        EXTRAS[name](draft, plan, plan.extras[name], choice)
    word = choice.choice(["step", "it", "iter:", "batch"])
    text = tidy(PRINT).replace("{PREFIX}", word)
    if plan.launcher != "none":
        text = text.replace("if $step", "if rank == 0 and $step")
    draft.each_step(text)


def _every(plan: Plan, part_ms: float, once_ms: float, choice: random.Random) -> int:
    """Every how many steps something happens, that it cost what the plan says a step."""
    return max(1, min(round(once_ms / part_ms), plan.steps // 3))


def _log(draft: Draft, plan: Plan, ms: float, choice: random.Random) -> None:
    draft.needs("import json")
    draft.prepare('journal = open("journal.jsonl", "w")', "journal")
    if choice.random() < 0.5:
        draft.constant("LINES", max(1, round(ms / 0.17)), "log")
        draft.each_step("""
            for number in range(LINES):
                journal.write(json.dumps({"step": $step, "part": number, "loss": $loss.item()}) + "\\n")
                journal.flush()
                # not a line may be lost
                os.fsync(journal.fileno())
            """)
    else:
        once_ms = choice.choice([ms, max(ms, 15.0)])
        draft.constant("DUMPED", max(10, round(once_ms / 0.0007)), "log")
        draft.constant("DUMP_EVERY", _every(plan, ms, once_ms, choice))
        draft.each_step("""
            if DUMPED and $step % DUMP_EVERY == 0:
                flat = torch.cat([weight.detach().flatten() for weight in $model.parameters()])
                flat = flat.repeat(DUMPED // len(flat) + 1)[:DUMPED]
                journal.write(json.dumps({"step": $step, "weights": flat.tolist()}) + "\\n")
            """)


SYNC = """
                out.flush()
                os.fsync(out.fileno())"""


def _checkpoint(draft: Draft, plan: Plan, ms: float, choice: random.Random) -> None:
    megabytes = choice.choice([8, 16, 32])
    every = _every(plan, ms, megabytes * 2.2, choice)
    draft.constant("SAVE_EVERY", every)
    draft.prepare(
        f'history = torch.zeros({megabytes} << 18) if "checkpoint" not in SKIP else None', "history"
    )
    sync = SYNC if choice.random() < 0.5 else ""
    draft.define(f"""
        def $save(network, extra, path):
            # averaged weights go with it
            with open(path + ".part", "wb") as out:
                torch.save({{"model": network.state_dict(), "history": extra}}, out){sync}
            os.replace(path + ".part", path)
        """)
    draft.each_step("""
        if history is not None and ($step + 1) % SAVE_EVERY == 0:
            $mark("save")
            $save($model, history, "last.pt")
            $mark("/save")
        """)


def _gc(draft: Draft, plan: Plan, ms: float, choice: random.Random) -> None:
    draft.needs("import gc")
    objects = choice.choice([2_000, 20_000, 50_000])
    draft.constant("COLLECT_EVERY", _every(plan, ms, 50.0 + objects * 0.0016, choice))
    draft.prepare(f'seen = [{{"id": k, "tags": [k]}} for k in range({objects})]', "seen")
    draft.each_step("""
        if "gc" not in SKIP and $step % COLLECT_EVERY == 0:
            # memory grew without it
            gc.collect()
        """)


def _metrics(draft: Draft, plan: Plan, ms: float, choice: random.Random) -> None:
    labels = 10 if plan.flavour in ("table", "image", "ids") else 64
    rows = plan.batch * (32 if plan.flavour == "tokens" else 1)
    if choice.random() < 0.5:
        draft.constant("COUNTED", max(1, round(ms / rows / 0.003)), "metrics")
        text = """
            with torch.no_grad():
                guess = $model($x).argmax(-1)
                truth = $y.flatten()
                right = 0
                for number in range(len(truth)):
                    for _ in range(COUNTED):
                        if guess[number].item() == truth[number].item():
                            right += 1
            """
    else:
        draft.constant("COUNTED", max(1, min(labels, round(ms / rows / 0.0016))), "metrics")
        text = """
            with torch.no_grad():
                odds = $model($x).softmax(-1)
                spread = 0.0
                for row in odds:
                    for label in range(COUNTED):
                        spread += row[label].item() ** 2
            """
    draft.each_step(f"if COUNTED:\n{indent(tidy(text))}")


def _temporaries(draft: Draft, plan: Plan, ms: float, choice: random.Random) -> None:
    megabytes = min(256, max(34, round(ms / 0.38)))
    draft.constant("CELLS_OF_MASK", megabytes << 18, "temporaries")
    draft.each_step(
        choice.choice(
            [
                """
                if CELLS_OF_MASK:
                    # one hot, for the regulariser
                    onehot = torch.zeros(CELLS_OF_MASK // 1024, 1024)
                    onehot.scatter_(1, torch.full((len(onehot), 1), $step % 1024), 1.0)
                """,
                """
                if CELLS_OF_MASK:
                    attention = torch.full((CELLS_OF_MASK // 4096, 4096), float($step))
                    attention[0, 0] = $loss.detach()
                """,
            ]
        )
    )


def _evaluation(draft: Draft, plan: Plan, ms: float, choice: random.Random) -> None:
    forward_ms = 0.1 + plan.model_ms / 3
    if plan.held_out == "loader" and plan.cost != "none":
        forward_ms += plan.cost_ms
    rounds = choice.choice([4, 10, 20])
    draft.constant("HELD_OUT", rounds, "evaluation")
    draft.constant("EVALUATE_EVERY", _every(plan, ms, rounds * forward_ms, choice))
    if plan.held_out == "loader":
        options = ", collate_fn=$collate" if plan.cost == "collate" else ""
        if "READY" in "".join(draft.setup):
            options = f", collate_fn=(lambda ready: ready) if 'input' in SKIP else {options[13:] or None}"
        draft.prepare(
            f"held_out = DataLoader($Records(BATCH * HELD_OUT), batch_size=BATCH{options})", "held_out"
        )
    else:
        draft.prepare("held_out = []", "held_out")
        draft.prepare("""
            for k in range(HELD_OUT):
                pairs = [$sample($read(index), index) for index in range(k, k + BATCH)]
                xs, ys = zip(*pairs)
                held_out.append((torch.stack(xs), torch.stack([torch.as_tensor(y) for y in ys])))
            """)
    draft.define("""
        def $evaluate(network, held_out):
            network.eval()
            total = 0.0
            with torch.no_grad():
                for xs, ys in held_out:
                    total += F.cross_entropy(network(xs), ys.flatten()).item()
            network.train()
            return total / max(1, HELD_OUT)
        """)
    draft.each_step("""
        if HELD_OUT and ($step + 1) % EVALUATE_EVERY == 0:
            $mark("eval")
            print(f"held out {$evaluate($model, held_out):.2f}")
            $mark("/eval")
        """)


EXTRAS = {
    "log": _log,
    "checkpoint": _checkpoint,
    "gc": _gc,
    "metrics": _metrics,
    "temporaries": _temporaries,
    "evaluation": _evaluation,
}
