"""The accelerator: what its own clock, a profiler's window and the driver say of it, and a view of them.

Not yet proven on hardware: nothing in this version fills ``DeviceFacts``. Seconds, calls and bytes are means
per step unless they say otherwise; shares run 0 to 1; ``None`` means "not measured", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeviceTable:
    """The device's timeline, from pairs of events read some steps later. A row covers ``steps`` up to ``t``.

    Seconds are sums over the covered steps; rows inside of an instrument's window are left out. ``wall_s`` =
    ``busy_s`` + the idle times, each named after who left the compute stream without work: ``input_s`` the
    loop waited for a batch, ``launch_s`` it was still issuing work, ``sync_s`` it had waited for the device
    and had nothing queued behind, ``transfer_s`` work waited for a copy, ``memory_s`` the allocator went to
    the driver, ``collective_s`` other ranks were awaited, ``other_s`` the loop was saving, logging or
    collecting garbage. ``host_s`` is what the loop's thread needs to issue the work, without waits for device
    or data and without those.
    """

    t: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    input_s: list[float] = field(default_factory=list)
    launch_s: list[float] = field(default_factory=list)
    sync_s: list[float] = field(default_factory=list)
    transfer_s: list[float] = field(default_factory=list)
    memory_s: list[float] = field(default_factory=list)
    collective_s: list[float] = field(default_factory=list)
    other_s: list[float] = field(default_factory=list)
    host_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class DeviceCopy:
    """Copies to the device from one line. ``host_s`` is the thread's time in the calls, ``device_s`` the copy
    engine's; ``blocking`` calls return only when the source is free again."""

    bytes: float
    count: float
    host_s: float
    device_s: float
    pinned: bool
    blocking: bool
    dtype: str = ""
    file: str = ""
    line: int = 0


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
    communication, copy, other) and precision: that of the arithmetic, if known (tf32 is not float32)."""

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
    """Means per step of ``steps`` steps under a profiler, which slows the host down: shares count, not sums.

    ``wall_s`` and its parts are those of ``DeviceTable``. ``busy_s`` is time in which any stream computed;
    pauses between kernels that were queued already are the device's own and counted with it. Communication
    that nothing hides is in ``collective_s``. ``side_stream_s`` is the time of kernels on other streams than
    the busiest, where the clock's marks do not see them. ``tensor_core_share`` and ``sm_active_share`` are of
    the kernels' time; the second is a bound from above, from how many blocks a kernel has.
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
    host_s: float = 0.0
    kernels_per_step: float = 0.0
    median_kernel_s: float = 0.0
    tensor_core_share: float | None = None
    sm_active_share: float | None = None
    side_stream_s: float = 0.0


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
class Switches:
    """Settings of torch in the trainer that decide which kernels run. Shapes: new ones per 100 steps."""

    matmul_precision: str | None = None
    autocast: str | None = None
    compiled: bool | None = None
    cudnn_benchmark: bool | None = None
    convolution_shapes: float | None = None


@dataclass(frozen=True)
class DeviceFacts:
    """What was measured of the device ``cuda:index``. ``sm_active_share`` is the mean share of
    multiprocessors with work while the device is busy; ``recompute_s`` is forward work that activation
    checkpointing repeats."""

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
    switches: Switches | None = None
    sm_active_share: float | None = None
    recompute_s: float | None = None
    window: DeviceWindow | None = None


@dataclass(frozen=True)
class Beat:
    """The device's mean steady step: the columns of ``DeviceTable``, per step."""

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
    host_s: float = 0.0


@dataclass(frozen=True)
class DriverView:
    """What the driver (NVML) said during the steady window: means over readings of a busy device.

    ``kernel_share`` is NVML's utilisation: time in which some kernel was resident, however small. ``slowed``
    maps a clock event reason to the share of busy readings that showed it. ``our_share`` is this job's part
    of what all processes kept busy, ``None`` where the driver's process numbers are not ours.
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
    partitioned: bool = False


@dataclass(frozen=True)
class DeviceView:
    """The accelerator that the training loop uses. ``beat`` is ``None`` without the device's own clock."""

    facts: DeviceFacts
    driver: DriverView
    beat: Beat | None = None
