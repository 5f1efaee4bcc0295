"""A training on a simulated device: real loader, loop, hooks and trace of the host; the device is a queue.

Its work is appended to the real trace of the host when the window ends. Nothing here is measured on hardware.
"""

from __future__ import annotations

from pathlib import Path

from tests.agent.meta_device import IN_SCRIPT
from tests.agent.watching import PRELUDE, Told, watched

DEVICE = (
    IN_SCRIPT
    + '''
ROOM = 8  # pieces of work in the queue

class Work:
    def __init__(self, name, cat, call, issued, returned, begin, end):
        self.__dict__.update(locals())

class Device(torch_api.Driver):
    """A queue: each piece of work begins when it is issued or when the one before is done."""
    kind, described, busy_until, done = "simulated", {"kind": "cuda"}, 0, []

    @classmethod
    def issue(cls, seconds, name="ampere_sgemm_128x64_nn", cat="kernel", call="cudaLaunchKernel",
              blocks=False):
        issued = time.monotonic_ns()
        if len(cls.done) >= ROOM:  # a full queue makes the host wait
            time.sleep(max(0, cls.done[-ROOM].end - issued) / 1e9)
        begin = max(issued, cls.busy_until)
        cls.busy_until = begin + int(seconds * 1e9)
        if blocks:
            cls.drain()
        cls.done.append(Work(name, cat, call, issued, time.monotonic_ns(), begin, cls.busy_until))

    @classmethod
    def copy(cls, seconds):
        cls.issue(seconds, "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", "cudaMemcpyAsync", blocks=True)

    @classmethod
    def drain(cls):
        time.sleep(max(0, cls.busy_until - time.monotonic_ns()) / 1e9)

    @classmethod
    def wait(cls):
        issued = time.monotonic_ns()
        cls.drain()
        cls.done.append(Work("", "", "cudaStreamSynchronize", issued, time.monotonic_ns(), 0, 0))

    def mark(self): return max(time.monotonic_ns(), Device.busy_until)
    def passed(self, mark): return time.monotonic_ns() >= mark

    def tracer(self):
        from _bdoc_agent import trace_window
        return Tracer(trace_window.Trace("simulated"))

class Tracer:
    """The host's trace by kineto, and the device's work written into it."""

    def __init__(self, host):
        self.host, self.prepare, self.mute, self.range = host, host.prepare, host.mute, host.range
        self.detaching, self.restore = False, host.restore

    def begin(self):
        self.begun = time.monotonic_ns()
        self.host.begin()

    def end(self, path, detach):
        self.host.end(path, detach)
        if path:
            with open(path) as file:
                whole = json.load(file)
            origin = time.time_ns() - time.monotonic_ns() - whole.get("baseTimeNanoseconds", 0)
            now = time.monotonic_ns()
            for number, one in enumerate(Device.done, 1):
                if one.end <= now and max(one.end, one.returned) > self.begun:
                    whole["traceEvents"] += self.events(one, number, origin)
            with open(path, "w") as file:
                json.dump(whole, file)

    def events(self, one, number, origin):
        def event(cat, name, begin, end, thread):
            return {"ph": "X", "cat": cat, "name": name, "ts": (begin + origin) / 1e3,
                    "dur": (end - begin) / 1e3, "pid": 0, "tid": thread,
                    "args": {"device": 0, "stream": 7, "correlation": number}}
        if one.issued > self.begun:
            yield event("cuda_runtime", one.call, one.issued, one.returned, os.getpid())
        if one.cat:
            yield event(one.cat, one.name, one.begin, one.end, 7)

class Slow(Rows):
    def __getitem__(self, index):
        time.sleep(FETCH)
        return super().__getitem__(index % 3)

def noted(call):
    """As the hooks on tensors do it for real devices."""
    if clock is None:
        return call()
    return sys.modules["_bdoc_agent.device_calls"].noted("item", sys._getframe(1), call)

clock = torch_api.adopt(Device())
for place, batch in enumerate(DataLoader(Slow(STEPS), batch_size=1)):
    STEP
    train_on(batch)
    if place == 30 and clock is not None:
        clock.state.control.on_profile()
'''
)


def trained(folder: Path, step: str, fetch: float = 0.0, steps: int = 80) -> Told:
    """A loop whose step issues work to the device and then trains a tiny model on the host."""
    script = PRELUDE + DEVICE.replace("FETCH", str(fetch)).replace("STEPS", str(steps))
    return watched(
        folder, script.replace("    STEP\n", "".join(f"    {line}\n" for line in step.split("; ")))
    )
