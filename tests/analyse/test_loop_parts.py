"""What the loop's thread was at, by the lines of the loop that its samples stand in."""

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.loop_parts import data_samples, training_samples
from bottleneck_doctor.analyse.steps import budget_of
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Feed, LoopBody
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from bottleneck_doctor.source.files import below_library
from tests.analyse.test_threads import STEP

FILE = "/home/ann/train.py"
TORCH = "/x/site-packages/torch/"
LIGHTNING = "/x/site-packages/lightning/"
# What a line of the loop calls, by name.
CALLS = {
    "model": [f"_call_impl ({TORCH}nn/modules/module.py:1)", f"forward ({FILE}:5)"],
    "backward": [f"backward ({TORCH}_tensor.py:1)"],
    "step": [f"step ({TORCH}optim/adam.py:1)"],
    "zero_grad": [f"zero_grad ({TORCH}optim/optimizer.py:1)"],
    "loss": [f"cross_entropy ({TORCH}nn/functional.py:1)"],
    "batch": [f"get_batch ({FILE}:9)"],
    "play": [f"play ({FILE}:13)", f"_call_impl ({TORCH}nn/modules/module.py:1)"],
    "act": [f"act ({FILE}:14)"],
    "average": [f"update ({FILE}:19)", f"Module.state_dict ({TORCH}nn/modules/module.py:2)"],
    "augment": [f"get_batch ({FILE}:9)", f"augment ({FILE}:17)", f"interpolate ({TORCH}nn/functional.py:1)"],
    "itself": [],
}


def stack(line: int, calls: str, count: int = 30, thread: str = "MainThread", pid: int = 1) -> Stack:
    frames = [f"<module> ({FILE}:90)", f"main ({FILE}:{line})", *CALLS[calls]]
    return Stack(pid, "trainer", thread, frames, count)


def profile(*stacks: Stack) -> Profile:
    return Profile(Run([], None, "/", "", 1.0, 0), Machine("", "", "", 2, 2.0), stacks=list(stacks))


def body(*feeds: Feed) -> LoopBody:
    return LoopBody(FILE, "main", 40, 50, list(feeds))


def parts(known: LoopBody | None, *stacks: Stack) -> list[tuple[int, str]]:
    return [(one.line, one.part) for one in training_samples(profile(*stacks), 1, known)]


def data(known: LoopBody, *stacks: Stack) -> set[int]:
    """The lines of the loop that get its batch."""
    return {one.line for one in data_samples(training_samples(profile(*stacks), 1, known), known)}


def test_the_first_frame_below_the_loop_that_is_known_names_the_part() -> None:
    lines = [(41, "batch"), (42, "model"), (43, "loss"), (44, "backward"), (45, "step"), (46, "itself")]
    assert parts(body(), *[stack(*one) for one in lines]) == [
        (41, "user"), (42, "forward"), (43, "loss"), (44, "backward"), (45, "optimizer"), (46, "line")
    ]  # fmt: skip
    assert parts(body(), stack(47, "average")) == [(47, "user")], "of weights, without a call of the model"


def test_a_closure_that_the_loop_defines_is_part_of_its_text() -> None:
    frames = [f"main ({FILE}:48)", f"step ({TORCH}optim/lbfgs.py:1)", f"main.<locals>.closure ({FILE}:43)"]
    called = Stack(1, "trainer", "MainThread", [*frames, f"get_batch ({FILE}:9)"], 30)
    own = Stack(1, "trainer", "MainThread", frames[:2], 10)
    assert parts(body(), called, own) == [(43, "user"), (48, "optimizer")]


def test_what_an_optimizers_closure_calls_is_no_update() -> None:
    step, train = f"step ({TORCH}optim/adamw.py:1)", f"training_step ({FILE}:61)"
    closure = f"closure ({LIGHTNING}loops/automatic.py:1)"
    mine = f"step ({FILE}:80)"  # of an optimizer of the user's own
    paths = [[step, closure, train, *CALLS["model"]], [step, closure, train], [step, closure], [step, mine]]
    found = training_samples(profile(*[Stack(1, "trainer", "MainThread", one, 5) for one in paths]), 1, None)
    assert [one.part for one in found] == ["forward", "user", "optimizer", "optimizer"]


def test_a_librarys_loop_is_named_by_what_it_calls_of_the_users() -> None:
    fit = [f"<module> ({FILE}:90)", f"fit ({LIGHTNING}trainer.py:5)", f"advance ({LIGHTNING}loops/fit.py:7)"]
    hook = f"on_train_batch_end ({FILE}:70)"
    assert below_library([*fit, hook, f"count ({FILE}:72)"]) == ("lightning", Location(FILE, 70, hook[:18]))
    assert below_library(fit) == ("lightning", None)
    assert below_library([f"main ({FILE}:44)", *CALLS["model"]]) == ("", None), "torch calls no loop"
    samples = training_samples(
        profile(*[Stack(1, "trainer", "MainThread", one, 50) for one in ([*fit, hook], fit)]), 1, None
    )
    step = replace(STEP, compute=STEP.wall, wait=0.0)
    named = {one.part: one.share for one in budget_of([step], None, step.wall, samples)}
    hook = f"{FILE.rpartition('/')[2]} on_train_batch_end()"
    assert named == {hook: pytest.approx(0.5), "code of lightning": pytest.approx(0.5)}


def test_what_is_not_in_the_loop_or_not_its_thread_is_no_training() -> None:
    others = [stack(30, "batch"), stack(41, "batch", thread="Thread-1"), stack(41, "batch", pid=2)]
    assert parts(body(), *others) == []
    assert parts(None, stack(30, "batch")) == [(0, "user")], "where no loop was found all of it is"


HEAD, MODEL, TRAINS = Feed(40, 40), Feed(42, 42, [0]), Feed(44, 44, [1])


@pytest.mark.parametrize(
    ("what", "feeds", "stacks", "lines"),
    [
        ("a generator in the head", (HEAD, MODEL, TRAINS), [(40, "batch"), (42, "model"), (44, "backward")],
         {40}),
        ("a batch that torch.nn.functional is used for", (HEAD, MODEL, TRAINS),
         [(40, "augment"), (42, "model"), (43, "loss"), (44, "backward")], {40}),
        ("metrics behind the optimizer", (HEAD, MODEL, TRAINS),
         [(40, "batch"), (42, "model"), (44, "backward"), (47, "batch"), (48, "itself")], {40}),
        # x = get_batch() before the loop and, for the next step, between the model and its loss
        ("the next batch in the middle", (Feed(43, 43), Feed(42, 42, [0]), TRAINS),
         [(42, "model"), (43, "batch"), (44, "backward")], {43}),
        # rollout() asks the model itself, line 42 evaluates what it did
        ("a rollout is the model's", (Feed(41, 41), MODEL, TRAINS),
         [(41, "play"), (42, "model"), (44, "backward")], set()),
        # seen, paid = rollout(policy, games): no sample met the policy there, line 42 calls it
        ("a rollout that is handed the model", (Feed(41, 41, [], [1]), MODEL, TRAINS),
         [(41, "act"), (42, "model"), (44, "backward")], set()),
        ("what is done with the model's answer", (HEAD, MODEL, Feed(43, 43, [1]), Feed(44, 44, [2])),
         [(42, "model"), (43, "act"), (44, "backward")], set()),
        # w and b are plain tensors: no module is called, the line that needs no other gets the batch
        ("a model of plain functions", (HEAD, Feed(42, 42, [0]), TRAINS),
         [(40, "batch"), (42, "itself"), (44, "backward")], {40}),
        ("the state that the model makes for itself", (Feed(40, 40), Feed(42, 42, [0, 1]), TRAINS),
         [(40, "batch"), (42, "model"), (44, "backward")], {40}),
        # a critic that judges the batch is so small that no sample met it
        ("a batch for a model that was never seen",
         (HEAD, Feed(42, 42), Feed(43, 43, [0, 1]), Feed(44, 44, [2])),
         [(40, "augment"), (42, "model"), (44, "backward")], {40}),
        # images, boxes = next(source); wanted = match(boxes); the model gets the images
        ("what is made of a batch for the loss alone",
         (HEAD, Feed(41, 41, [0]), Feed(42, 42, [0]), Feed(44, 44, [1, 2])),
         [(40, "batch"), (41, "act"), (42, "model"), (44, "backward")], {40}),
        # for step in ...: agent.act(state, step); batch = memory.sample(step); agent.learn(batch)
        ("two models, one of which gets the loop's counter",
         (HEAD, Feed(41, 41, [0]), Feed(42, 42, [0]), Feed(44, 44, [2])),
         [(41, "model"), (42, "batch"), (44, "model"), (44, "backward")], {42}),
        ("a source in whose line one torn stack shows the model",
         (HEAD, Feed(42, 42, [0]), TRAINS),
         [(40, "batch"), (40, "model", 1), (42, "model", 17), (44, "backward")], {40}),
        ("nothing is known of the lines", (), [(41, "batch"), (42, "model")], set()),
    ],
)  # fmt: skip
def test_data_is_what_the_models_input_comes_from(
    what: str, feeds: tuple[Feed, ...], stacks: list[tuple[int, str]], lines: set[int]
) -> None:
    assert data(body(*feeds), *[stack(*one) for one in stacks]) == lines, what
