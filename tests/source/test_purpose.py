"""What a line of the user's source is for, and what stands in it."""

import ast

import pytest

from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.source import code
from bottleneck_doctor.source.purpose import (
    LOG,
    MEASURE,
    TRAINING,
    UNKNOWN,
    UNNEEDED,
    Purpose,
    is_shrunk_later,
    purpose_at,
    purpose_of,
)

PPO = """\
def main():
    for iteration in range(1, args.num_iterations + 1):
        for step in range(args.num_steps):
            obs[step] = next_obs
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten()
            actions[step], logprobs[step] = action, logprob
            next_obs, reward, terminations, infos = envs.step(action.cpu().numpy())
            rewards[step] = torch.tensor(reward).view(-1)
            next_obs = torch.Tensor(next_obs)
            if "final_info" in infos:
                for info in infos["final_info"]:
                    writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
        with torch.no_grad():
            advantages = advantages_of(rewards, values, agent.get_value(next_obs))
        b_obs = obs.reshape((-1,) + shape)
        b_advantages = advantages.reshape(-1)
        for epoch in range(args.update_epochs):
            np.random.shuffle(b_inds)
            for start in range(0, args.batch_size, args.minibatch_size):
                mb_inds = b_inds[start : start + args.minibatch_size]
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds])
                loss = (newlogprob * b_advantages[mb_inds]).mean() - entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        writer.add_scalar("charts/learning_rate", optimizer.param_groups[0]["lr"], global_step)
        y_pred = b_values.cpu().numpy()
        writer.add_scalar("losses/value_loss", explained(y_pred), global_step)
"""
ENVIRONMENT = """\
    def step(self, actions):
        for env, action in zip(self.envs, actions):
            env.move(action)
        return self.state()
"""
TRAINER = """\
def train(model, loader):
    model.train()
    for step, batch in enumerate(loader):
        batch = to_device(batch)
        augment(batch)
        output = model(batch["x"])
        loss = criterion(output, batch["y"])
        train_step(loss)
        history.append(loss.item())
        show(batch)
        acc = accuracy(output, batch["y"])
        if step % 50 == 0:
            print("acc", acc)
        if step % 100 == 0:
            validate(model)
"""
STEP = """\
def train_step(loss):
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
"""
AUGMENT = """\
def augment(batch):
    batch["x"] = jitter(batch["x"])
"""
SHOW = """\
def show(batch):
    canvas.draw(batch["x"].sum())
"""
ACCURACY = """\
def accuracy(output, target):
    return (output.argmax(1) == target).float().mean().item()
"""
VALIDATE = """\
def validate(model):
    for x, y in held_out:
        seen.update(model(x), y)
"""
SOURCES = [
    FunctionSource("ppo.py", "main", 1, PPO),
    FunctionSource("env.py", "step", 1, ENVIRONMENT),
    FunctionSource("t.py", "train", 1, TRAINER),
    FunctionSource("t.py", "train_step", 101, STEP),
    FunctionSource("t.py", "augment", 201, AUGMENT),
    FunctionSource("t.py", "show", 301, SHOW),
    FunctionSource("t.py", "accuracy", 401, ACCURACY),
    FunctionSource("t.py", "validate", 501, VALIDATE),
]


def at(*frames: str) -> Purpose:
    return purpose_of(SOURCES, [Stack(1, "trainer", "MainThread", list(frames), 10)])


def line(text: str, words: str) -> int:
    (found,) = (number for number, row in enumerate(text.splitlines(), 1) if words in row)
    return found


def ppo(words: str) -> str:
    return f"main (ppo.py:{line(PPO, words)})"


def train(words: str) -> str:
    return f"train (t.py:{line(TRAINER, words)})"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ((ppo("envs.step"), "VectorEnv.step (env.py:3)"), TRAINING),
        ((ppo("agent.get_action_and_value(next_obs)"),), TRAINING),
        ((ppo("np.random.shuffle"),), UNKNOWN),
        ((ppo("optimizer.step"),), TRAINING),
        ((ppo("losses/value_loss"),), LOG),
        ((train("train_step(loss)"), "train_step (t.py:103)"), TRAINING),
        ((train("loss.item()"),), MEASURE),
        ((train("accuracy(output"), "accuracy (t.py:402)"), MEASURE),
        ((train('print("acc"'),), LOG),
        ((train("validate(model)"), "validate (t.py:503)"), UNNEEDED),
    ],
)
def test_a_line_is_for_what_becomes_of_its_result(path: tuple[str, ...], what: str) -> None:
    assert at(*path).what == what


def test_what_a_line_only_writes_out_is_not_its_writing() -> None:
    """``print(evaluate(model))`` is an evaluation; what formats or sends within a call of print is not."""
    text = "def run(model):\n    loss = model(x)\n    loss.backward()\n    print(f'{evaluate(model):.1f}')\n"
    sources = [
        FunctionSource("r.py", "run", 1, text),
        FunctionSource("r.py", "evaluate", 11, "@torch.no_grad()\ndef evaluate(model):\n    return 1\n"),
    ]

    def purpose(*path: str) -> str:
        return purpose_of(sources, [Stack(1, "trainer", "MainThread", list(path), 10)]).what

    assert purpose("run (r.py:4)", "evaluate (r.py:13)") == UNNEEDED
    assert purpose("run (r.py:4)") == LOG
    assert purpose("run (r.py:4)", "__str__ (r.py:22)") == LOG


def test_what_is_given_away_to_be_changed_is_not_called_a_measure() -> None:
    assert at(train("augment(batch)"), "augment (t.py:202)").what == UNKNOWN
    assert at(train("augment(batch)"), "elsewhere (u.py:9)").what == UNKNOWN
    assert at(train("show(batch)"), "show (t.py:302)").what == UNNEEDED


def test_a_line_repeats_in_a_loop_within_the_step_and_not_in_the_loop_of_steps() -> None:
    assert at(ppo("envs.step"), "VectorEnv.step (env.py:3)").repeats
    assert at(ppo("next_obs = torch.Tensor")).repeats, "the rollout's loop lies within an iteration"
    assert not at(train("accuracy(output"), "accuracy (t.py:402)").repeats
    assert not at(ppo("loss = (newlogprob")).repeats


REINFORCE = """\
def main():
    for episode in count():
        action = select_action(state)
        state, reward = env.step(action)
        policy.rewards.append(reward)
        running = watch(state)
        finish_episode()
"""
FINISH = """\
def finish_episode():
    returns = [one for one in policy.rewards]
    loss = sum(returns)
    loss.backward()
"""


def test_what_the_training_takes_from_the_module_is_part_of_it() -> None:
    """A rollout's rewards are handed over by a global, not by an argument."""
    sources = [
        FunctionSource("rl.py", "main", 1, REINFORCE),
        FunctionSource("rl.py", "finish_episode", 20, FINISH),
    ]

    def what(number: int) -> str:
        frames = [f"main (rl.py:{number})", "forward (/x/site-packages/torch/nn/modules/linear.py:1)"]
        return purpose_at(sources, Stack(1, "trainer", "MainThread", frames, 1)).what

    assert [what(number) for number in (3, 4, 5)] == [TRAINING] * 3
    assert what(6) == UNNEEDED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('connection.request("POST", "/metrics", body)', True),
        ('connection.request("GET", "/shard")', False),
        ("metrics.emit(step, loss=loss)", True),
        ("ready.put(batch)", False),
    ],
)
def test_what_is_sent_away_is_written_out(text: str, expected: bool) -> None:
    (statement,) = ast.parse(text).body
    assert code.writes(statement) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = blur(self.pictures[i])\n    y = x / 255\n    return center_crop(y)", True),
        ("x = blur(self.pictures[i])\n    return x[top : top + 64, left : left + 64]", True),
        ("x = blur(self.pictures[i])\n    z = crop(self.masks[i])", False),  # another picture
    ],
)
def test_what_is_cropped_after_a_line_could_be_cropped_before(text: str, expected: bool) -> None:
    source = FunctionSource("train.py", "get", 1, f"def get(self, i):\n    {text}\n")
    assert is_shrunk_later(source, 2) is expected
