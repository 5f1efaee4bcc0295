"""The accelerator: what its own clock, a profiler's window and the driver say of it, and the view of all.

Not yet proven on hardware. Seconds, calls and bytes are means per step unless they say otherwise; shares run
0 to 1; ``None`` means "not measured", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeviceTable:
    """Sampled steps, timed by marks on the device's timeline; rows inside an instrument's window are left
    out.

    A row stands for ``steps`` steps up to the instant ``t``, by ``looks`` of them; all else are sums over
    these steps, in seconds. ``wall_s`` is the device's time from the loop's asking for a batch to its asking
    for the next, ``wait_s`` the part until the batch was there, ``host_s`` and ``host_wait_s`` the same by
    the loop's own clock. Of ``judged`` steps it is known that the device had done all their work at the end
    in ``caught_up``. Saving and logging took ``other_s`` of the device and ``host_other_s`` of the host.
    Copies and synchronizing calls were recorded in ``heard`` steps only: there, ``copies`` on the compute
    stream took ``copy_s`` of the device, of which ``fetched_s`` while the batch was awaited; the host spent
    ``blocked_s`` in copies that block, and ``inside_s`` in calls that wait for the device.
    """

    t: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    looks: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    wait_s: list[float] = field(default_factory=list)
    host_s: list[float] = field(default_factory=list)
    host_wait_s: list[float] = field(default_factory=list)
    judged: list[int] = field(default_factory=list)
    caught_up: list[int] = field(default_factory=list)
    backward_s: list[float] = field(default_factory=list)
    optimizer_s: list[float] = field(default_factory=list)
    other_s: list[float] = field(default_factory=list)
    copy_s: list[float] = field(default_factory=list)
    fetched_s: list[float] = field(default_factory=list)
    heard: list[int] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    host_other_s: list[float] = field(default_factory=list)
    blocked_s: list[float] = field(default_factory=list)
    inside_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class DeviceCopy:
    """Copies to the device from one line. ``host_s`` is the thread's time in the calls, ``device_s`` the
    device's; ``blocking`` calls return only when the source is free again. ``side_stream``: not on the one
    that computes. ``made``: the line itself makes what it copies."""

    bytes: float
    count: float
    host_s: float
    device_s: float
    pinned: bool
    blocking: bool
    dtype: str = ""
    file: str = ""
    line: int = 0
    side_stream: bool = False
    made: bool = False


@dataclass(frozen=True)
class DeviceSync:
    """Calls from one line that waited for the device. ``inside_s`` is mostly the device finishing work that
    had to be done anyway; ``idle_s``, the idleness that followed on it, is all that can be removed."""

    call: str
    count: float
    inside_s: float
    idle_s: float
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Kernels:
    """Kernels of one kind (matmul, convolution, attention, elementwise, reduction, indexing, optimizer,
    communication, copy, layout, other) and precision: that of the arithmetic, if known (tf32 is not
    float32). ``layout``: cuDNN transposes images for a convolution."""

    kind: str
    device_s: float
    calls: float
    median_s: float
    precision: str = ""
    tensor_core_share: float | None = None


@dataclass(frozen=True)
class Product:
    """One shape of matrix product (m x k times k x n) and the device's time for all its calls."""

    m: int
    n: int
    k: int
    precision: str
    calls: float
    device_s: float


@dataclass(frozen=True)
class Convolution:
    """One shape of convolution, as torch's operators are given it; ``backward``: of input and weights."""

    input: list[int]
    weight: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int
    precision: str
    calls: float
    device_s: float
    backward: bool = False


@dataclass(frozen=True)
class DeviceWindow:
    """Means per step of ``steps`` steps under a profiler, which slows the host down.

    ``wall_s`` = ``busy_s`` + the idle times, each named after what left the device without work: ``input_s``
    the loop waited for a batch, ``launch_s`` it was still issuing work, ``sync_s`` it had waited for the
    device and had nothing queued behind, ``transfer_s`` work waited for a copy, ``memory_s`` the allocator
    went to the driver, ``collective_s`` other ranks were awaited, ``other_s`` the loop was saving, logging or
    collecting garbage, ``unexplained_s`` work was queued and the trace does not hold what it waited for.
    ``host_s`` is what the loop's thread needs to issue the work, without waits for device or data and
    without those.

    ``busy_s`` is time in which any stream computed; communication that nothing hides is in
    ``collective_s``. Short pauses between kernels that were queued already are the device's own and counted
    with it. ``forward_s``, ``backward_s`` and ``optimizer_s`` divide it by what the loop was at when it
    launched the kernels. ``communication_s`` is the time in which kernels exchange with other ranks, hidden
    behind computing or not. ``tensor_core_share`` and ``sm_active_share`` are of the kernels' time; the
    second is a bound from above, from how many blocks a kernel has.
    """

    steps: int
    wall_s: float
    busy_s: float
    input_s: float = 0.0
    launch_s: float = 0.0
    sync_s: float = 0.0
    transfer_s: float = 0.0
    memory_s: float = 0.0
    collective_s: float = 0.0
    other_s: float = 0.0
    unexplained_s: float = 0.0
    host_s: float = 0.0
    kernels_per_step: float = 0.0
    tensor_core_share: float | None = None
    sm_active_share: float | None = None
    forward_s: float = 0.0
    backward_s: float = 0.0
    optimizer_s: float = 0.0
    communication_s: float = 0.0


@dataclass(frozen=True)
class Allocator:
    """The caching allocator over ``steps`` steady steps: totals, and bytes at the peak."""

    steps: int
    retries: int = 0
    device_allocs: int = 0
    empty_cache_calls: int = 0
    peak_bytes: int = 0
    reserved_bytes: int = 0


@dataclass(frozen=True)
class TorchSettings:
    """Settings of torch in the trainer that decide which kernels run. Shapes: new ones per 100 steps."""

    matmul_precision: str | None = None
    autocast: str | None = None
    compiled: bool | None = None
    cudnn_benchmark: bool | None = None
    convolution_shapes: float | None = None


@dataclass(frozen=True)
class DeviceFacts:
    """What was measured of the device that one training process (``pid``) uses: ``kind`` and ``index`` by
    torch's numbering, ``driver`` by the driver's series (``gpu0_``...), ``None`` if which of them
    it is cannot be determined.

    ``loader`` is whose loop the table is about, empty where there was none. ``least_pair_s`` is the shortest
    time between the two marks around a wait for data: marks themselves take that long. ``silent`` says why
    the device's clock could not be read. ``sm_active_share`` is the mean share of multiprocessors with work
    while the device is busy; ``recompute_s`` is forward work that activation checkpointing repeats.
    """

    index: int = 0
    name: str = ""
    capability: tuple[int, int] | None = None
    memory_bytes: int | None = None
    table: DeviceTable = field(default_factory=DeviceTable)
    copies: list[DeviceCopy] | None = None
    syncs: list[DeviceSync] | None = None
    kernels: list[Kernels] | None = None
    products: list[Product] | None = None
    allocator: Allocator | None = None
    switches: TorchSettings | None = None
    sm_active_share: float | None = None
    recompute_s: float | None = None
    kind: str = "cuda"
    uuid: str = ""
    driver: int | None = 0
    pid: int = 0
    loader: str = ""
    least_pair_s: float = 0.0
    silent: str = ""
    window: DeviceWindow | None = None
    convolutions: list[Convolution] | None = None


@dataclass(frozen=True)
class DeviceClockStep:
    """The mean steady step by the device's own clock alone: it shows when the device waited for data, copies
    and saving, not whether it computed or waited for kernel launches in the rest.

    ``input_s``, ``transfer_s`` and ``other_s`` are its idle times as in ``DeviceWindow``, ``rest_s`` what is
    left of ``wall_s``, of which ``backward_s`` and ``optimizer_s`` lie between the begin and the end of a
    backward pass and an update; ``low`` and ``high`` bound the share of ``input_s`` (90 %). ``issue_s`` is
    the loop's own time without waits for data, device, copies and saving; ``inside_s`` and ``blocked_s`` its
    time in calls that wait for the device and in copies that block. ``caught_up`` is the share of steps at
    whose end the device had nothing left to do.
    """

    looks: int
    wall_s: float
    input_s: float
    rest_s: float
    low: float = 0.0
    high: float = 0.0
    transfer_s: float = 0.0
    other_s: float = 0.0
    issue_s: float = 0.0
    inside_s: float = 0.0
    blocked_s: float = 0.0
    caught_up: float | None = None
    heard: bool = False
    backward_s: float = 0.0
    optimizer_s: float = 0.0


@dataclass(frozen=True)
class DriverView:
    """What the driver (NVML, amdsmi) reported in the steady window: means over readings of a busy device.

    ``kernel_share`` is its utilisation: time in which some kernel was resident, however small. ``slowed``
    maps a clock event reason to the share of busy readings that showed it. ``our_share`` is this job's part
    of what all processes kept busy, ``None`` if it names no process of the job (another pid namespace).
    ``sm_active_share`` is that of multiprocessors with work, ``tensor_active_share`` that of tensor cores,
    ``dram_active_share`` that of the memory's bandwidth, all over all the time and not only while busy.
    """

    readings: int = 0
    kernel_share: float | None = None
    clock_share: float | None = None
    slowed: dict[str, float] = field(default_factory=dict)
    power_share: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    link_share: float | None = None
    link_gen: float | None = None
    link_gen_max: float | None = None
    link_width: float | None = None
    link_width_max: float | None = None
    memory_bytes: float | None = None
    foreign_bytes: float | None = None
    foreign_processes: float | None = None
    our_share: float | None = None
    sm_active_share: float | None = None
    tensor_active_share: float | None = None
    dram_active_share: float | None = None


@dataclass(frozen=True)
class DeviceView:
    """The accelerator that the training loop uses. ``clock`` is ``None`` where its own clock was not read,
    ``beat``, its mean steady step divided completely, also where no profiler's window says what it did
    between its waits."""

    facts: DeviceFacts
    driver: DriverView
    beat: DeviceWindow | None = None
    clock: DeviceClockStep | None = None
