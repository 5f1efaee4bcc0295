"""The models, the ways to learn from a batch, and what a reinforcement-learning script has in their place."""

from __future__ import annotations

import random

from tests.random_trainings.draft import Draft, indent, tidy
from tests.random_trainings.plan import Plan

NETS = {
    "mlp": """
        $model = nn.Sequential(
            nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10)
        )
        """,
    "conv": """
        $model = nn.Sequential(
            nn.Conv2d(3, HIDDEN, 3, padding=1), nn.ReLU(),
            nn.Conv2d(HIDDEN, 2 * HIDDEN, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(2 * HIDDEN, 2 * HIDDEN, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * HIDDEN, 10),
        )
        """,
    "policy": "$model = nn.Sequential(nn.Linear(3, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))",
}
CLASSES = {
    "transformer": """
        class $Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(VOCABULARY, HIDDEN)
                layer = nn.TransformerEncoderLayer(HIDDEN, 4, 2 * HIDDEN, dropout=0.0, batch_first=True)
                self.body = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
                self.head = nn.Linear(HIDDEN, VOCABULARY)

            def forward(self, ids):
                return self.head(self.body(self.embed(ids))).flatten(0, 1)
        """,
    "lstm": """
        class $Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(VOCABULARY, HIDDEN)
                self.rnn = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
                self.head = nn.Linear(HIDDEN, VOCABULARY)

            def forward(self, ids):
                out, _ = self.rnn(self.embed(ids))
                return self.head(out).flatten(0, 1)
        """,
    "bag": """
        class $Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(TABLE, 16)
                self.head = nn.Sequential(nn.Linear(16, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))

            def forward(self, ids):
                return self.head(self.table(ids).mean(1))
        """,
}
TINY = {"mlp": 4, "conv": 1, "transformer": 4, "lstm": 4, "bag": 4}
OPTIMIZERS = {
    "sgd": "torch.optim.SGD({}.parameters(), lr=RATE)",
    "momentum": "torch.optim.SGD({}.parameters(), lr=RATE, momentum=0.9)",
    "adamw": "torch.optim.AdamW({}.parameters(), lr=RATE)",
    "lbfgs": "torch.optim.LBFGS({}.parameters(), lr=0.1, max_iter=4, tolerance_grad=0, tolerance_change=0)",
}
LOSS = "F.cross_entropy($model($x), $y.flatten())"
STEPS = {
    "standard": [
        f"""
        $opt.zero_grad()
        $loss = {LOSS}
        $loss.backward()
        $opt.step()
        """,
        f"""
        prediction = $model($x)
        $loss = {LOSS.replace("$model($x)", "prediction")}
        $opt.zero_grad(set_to_none=True)
        $loss.backward()
        torch.nn.utils.clip_grad_norm_($model.parameters(), 1.0)
        $opt.step()
        """,
    ],
    "accumulate": [
        f"""
        $loss = {LOSS}
        ($loss / ACCUMULATE).backward()
        if ($step + 1) % ACCUMULATE == 0:
            $opt.step()
            $opt.zero_grad()
        """
    ],
    "closure": [
        f"""
        def closure():
            $opt.zero_grad()
            value = {LOSS}
            value.backward()
            return value

        $loss = $opt.step(closure)
        """
    ],
    "manual": [
        f"""
        $loss = {LOSS}
        $model.zero_grad()
        $loss.backward()
        with torch.no_grad():
            for weight in $model.parameters():
                weight -= RATE * weight.grad
        """,
        f"""
        $loss = {LOSS}
        weights = list($model.parameters())
        for weight, slope in zip(weights, torch.autograd.grad($loss, weights)):
            weight.data.add_(slope, alpha=-RATE)
        """,
    ],
    "gan": [
        """
        # the critic first
        fake = $model(torch.randn(len($x), WIDTH))
        good, bad = critic($x), critic(fake.detach())
        critic_loss = F.softplus(-good).mean() + F.softplus(bad).mean()
        critic_opt.zero_grad()
        critic_loss.backward()
        critic_opt.step()
        $loss = F.softplus(-critic(fake)).mean()
        $opt.zero_grad()
        $loss.backward()
        $opt.step()
        """
    ],
}
STEPS["compiled"] = STEPS["standard"]


def add_model(draft: Draft, plan: Plan, choice: random.Random) -> None:
    """``$model`` and ``$opt``."""
    draft.needs("from torch import nn", "from torch.nn import functional as F")
    draft.constant("HIDDEN", plan.size, "model", TINY[plan.model])
    draft.constant("RATE", choice.choice(["0.01", "1e-3", "3e-4"]))
    if plan.model == "transformer":
        draft.constant("LAYERS", 2, "model", 1)
    if plan.model in CLASSES:
        draft.define(CLASSES[plan.model])
        draft.prepare("$model = $Net()", "$model")
    else:
        text = NETS["policy" if plan.step == "rl" else plan.model]
        draft.prepare(text.replace("HIDDEN, 10)", "HIDDEN, WIDTH)") if plan.step == "gan" else text, "$model")
    if plan.step == "gan":
        draft.prepare(
            f"""
            critic = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.LeakyReLU(0.2), nn.Linear(HIDDEN, 1))
            critic_opt = {OPTIMIZERS["adamw"].format("critic")}
            """,
            "critic",
            "critic_opt",
        )
    if plan.step == "compiled":
        draft.prepare(f'$model = torch.compile($model, backend="{choice.choice(["eager", "aot_eager"])}")')
    if plan.launcher != "none" and plan.seed % 2:
        draft.needs("from torch.nn.parallel import DistributedDataParallel")
        draft.prepare('if "comm" not in SKIP:\n    $model = DistributedDataParallel($model)')
    if plan.optimizer != "none":
        draft.prepare(f"$opt = {OPTIMIZERS[plan.optimizer].format('$model')}", "$opt")


def add_step(draft: Draft, plan: Plan, choice: random.Random) -> None:
    """What the loop does with a batch: in its body, in a function, or in a closure."""
    if plan.step == "accumulate":
        draft.constant("ACCUMULATE", choice.choice([2, 4]))
    lines = tidy(choice.choice(STEPS[plan.step]))
    if plan.launcher != "none":  # a table's weights are few to compute with, and many to update
        lines = lines.replace("$opt.step()", 'if "model" not in SKIP: $opt.step()')
    if plan.launcher != "none" and not plan.seed % 2:
        update = 'if "model" not in SKIP: $opt.step()'
        inner = "    " if plan.step == "accumulate" else ""
        lines = lines.replace(update, f"average($model)\n{inner}{update}", 1)
        draft.define("""
            def average(network):
                # after every backward, as DistributedDataParallel would
                if "comm" in SKIP:
                    return
                for weight in network.parameters():
                    dist.all_reduce(weight.grad)
                    weight.grad /= dist.get_world_size()
            """)
    form = choice.choice(["inline", "inline", "function", "closure"])
    names = ["$model", "$opt", "critic", "critic_opt"]
    held = [name for name in names if name in draft.state]
    if form == "inline":
        draft.each_step(lines)
        return
    if form == "function":
        signature = ", ".join([*held, "$x", "$y", "$step"])
        draft.define(f"def $train_step({signature}):\n{indent(lines)}\n    return $loss")
        draft.each_step(f"$loss = $train_step({signature})")
        return
    inner = indent(f"def inner($x, $y, $step):\n{indent(lines)}\n    return $loss")
    draft.define(f"def make_step({', '.join(held)}):\n{inner}\n\n    return inner")
    draft.prepare(f"do_step = make_step({', '.join(held)})", "do_step")
    draft.each_step("$loss = do_step($x, $y, $step)")


def add_rollout(draft: Draft, plan: Plan, choice: random.Random) -> None:
    """Policy gradient: an environment in Python, a roll-out, an update."""
    draft.needs("import math")
    envs, horizon = choice.choice([(8, 32), (16, 32), (32, 16)])
    rest_ms = 3.0 + horizon * 0.06
    main_ms = choice.uniform(3, 6) * rest_ms
    draft.constant("ENVS", envs)
    draft.constant("HORIZON", horizon)
    draft.constant("STEPS", max(30, round(1800 * plan.seconds / (rest_ms + main_ms))))
    draft.constant("SUBSTEPS", max(1, round(main_ms / (envs * horizon) / 0.0006)), "environment")
    name = choice.choice(["Pendulum", "Cart", "Walker"])
    draft.define(RL_ENVIRONMENT.replace("World", name))
    draft.define(RL_ROLLOUT)
    draft.prepare(f"worlds = [{name}(k) for k in range(ENVS)]", "worlds")
    draft.each_step("states, actions, rewards = rollout($model, worlds)")
    draft.each_step(RL_UPDATE)


RL_ENVIRONMENT = """
    class World:
        def __init__(self, number):
            self.angle, self.speed, self.time = 0.1 * number, 0.0, 0

        def observe(self):
            return [math.cos(self.angle), math.sin(self.angle), self.speed]

        def step(self, push):
            for _ in range(SUBSTEPS):
                pull = 9.8 * math.sin(self.angle) + (1.5 if push else -1.5)
                self.speed = max(-8.0, min(8.0, self.speed + pull * 1e-3))
                self.angle += self.speed * 1e-3
            self.time += 1
            return -abs(self.angle % 6.2832 - 3.1416) - 0.1 * self.speed**2
    """
RL_ROLLOUT = """
    def rollout(policy, worlds):
        states, actions, rewards = [], [], []
        for _ in range(HORIZON):
            seen = torch.tensor([world.observe() for world in worlds])
            with torch.no_grad():
                action = torch.bernoulli(policy(seen).sigmoid().squeeze(1))
            rewards.append(torch.tensor([w.step(a > 0.5) for w, a in zip(worlds, action.tolist())]))
            states.append(seen)
            actions.append(action)
        return torch.stack(states), torch.stack(actions), torch.stack(rewards)
    """
RL_UPDATE = """
    returns = rewards.flip(0).cumsum(0).flip(0)
    advantage = (returns - returns.mean()) / (returns.std() + 1e-6)
    chance = F.binary_cross_entropy_with_logits($model(states).squeeze(-1), actions, reduction="none")
    $loss = (chance * advantage).mean()
    $opt.zero_grad()
    $loss.backward()
    $opt.step()
    """
