"""The agent can leave a process that goes on: torch is then itself again, and so is everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.watching import AGENT, PRELUDE, plain, said

SCRIPT = """
import gc, importlib, logging, threading, zipfile
sys.path.insert(0, {root!r})
from bottleneck_doctor.inject.sitecustomize import admit

WATCHED = [sys.modules[one] for one in
    ("torch torch.autograd torch.autograd.profiler torch.serialization torch.optim.optimizer os logging "
     "zipfile threading torch.utils.data.dataloader torch.utils.data._utils.worker "
     "torch.utils.data._utils.fetch").split()]

def found():
    every = {{}}
    for module in WATCHED:
        for name, value in vars(module).items():
            if callable(value):
                every[module.__name__, name] = value
            if isinstance(value, type) and value.__module__ == module.__name__:
                every.update({{(module.__name__, name, one): part for one, part in vars(value).items()
                              if callable(part)}})
    hooks = sys.modules["torch.optim.optimizer"]
    return every, list(gc.callbacks), list(sys.meta_path), dict(hooks._global_optimizer_pre_hooks), \\
        dict(hooks._global_optimizer_post_hooks), sorted(os.listdir("/proc/self/fd")), set(sys.modules)

loader = DataLoader(Rows(), 4, num_workers=1, persistent_workers=True)

def epoch():
    for batch in loader:
        loss = train_on(batch)
    torch.save(model.state_dict(), os.devnull)

def changed(before, after):
    return sorted(str(name) for name, value in before[0].items() if after[0].get(name) is not value)

def come_and_go(number):
    folder = "run%d" % number
    os.mkdir(folder)
    open(folder + "/control", "wb").write(bytes(64))
    admit(os.path.abspath(folder), {agent!r})
    epoch()
    during = found()
    importlib.import_module("_bdoc_agent.leaving").take_off()
    return during

epoch()  # what torch does at its first step is done
one = come_and_go(0)  # as is what stays: one audit hook, one pair of calls at forks
before = found()
during = come_and_go(1)
after = found()
pid = os.fork()
if not pid:
    os._exit(bool(changed(before, found())))
say(hooked=changed(before, during), left=changed(before, after),
    equal=[a == b for a, b in zip(before[1:], after[1:])], forked=os.waitpid(pid, 0)[1],
    ours=[name for thing in (loader, loader._iterator) for name in vars(thing) if "bdoc" in name],
    facts=[sorted(one.rpartition(".")[2] for one in os.listdir("run%d" % number)) for number in (0, 1)],
    told=sum('"fact": "loader"' in line for name in os.listdir("run1") if name.endswith("facts")
             for line in open("run1/" + name)))
"""


@pytest.mark.slow
def test_after_leaving_all_is_as_it_was_and_it_may_come_again(tmp_path: Path) -> None:
    told = said(plain(tmp_path, PRELUDE + SCRIPT.format(root=str(AGENT.parents[1]), agent=str(AGENT))))
    for hooked in ("backward", "__next__", "save", "fsync", "handle"):
        assert any(hooked in one for one in told["hooked"]), told["hooked"]
    assert told["left"] == []
    assert told["equal"] == [True] * 6
    assert told["forked"] == 0, "a forked child has hooks again"
    assert told["ours"] == []
    assert told["facts"] == [["control", "facts", "rows"]] * 2
    assert told["told"] == 1, "the loader is told of anew, though its iterator is older"
