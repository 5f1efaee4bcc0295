"""The treaty between the agent that writes rows and the supervisor that reads them.

One file per process, ``<pid>-<start>.rows``: a header page, then rows of 64 bytes. A row's kind is packed
last, so a row whose kind is not zero is whole even if its writer was killed. All times are
CLOCK_MONOTONIC in nanoseconds. Text goes to ``<pid>-<start>.facts``, one JSON object a line.

Change anything here and raise VERSION: an old agent may outlive a new supervisor.
"""

from __future__ import annotations

import errno
import os
import stat
import struct

MAGIC = b"BDOCROWS"
VERSION = 12
HEADER_BYTES = 4096
FIRST_BYTES = 32 * 1024  # of a file's rows are reserved first: most workers of a long run write few
CHUNK_BYTES = 512 * 1024  # what is reserved doubles up to this, and grows by this
MAX_CHUNKS = 16
OPERATORS_AT_MOST = 40  # of a profiled step: those of the most time, and these, however little they take
TELLING = "_pack_padded_sequence", "varlen", "attention_math"

IDENTITY = struct.Struct("<8sIIqqq")  # magic, version, row bytes, pid, parent pid, start
ROW = struct.Struct("<qqqqqqqIHH")  # start, duration, a, b, c, d, e, thing, thread, kind
WORD = struct.Struct("<q")

# The board: words of the header that the supervisor may read while the run goes on.
STEPS = 64  # batches that arrived in training loops, evaluation included
TRAINED = 72  # of these, steps in which a backward pass ran
WAIT = 80  # nanoseconds spent waiting for them
FIRST = 88  # when the first batch arrived
LAST = 96  # when the newest batch arrived
FETCHING = 104  # native id of the thread that is inside a fetch, 0 when none is
DROPPED = 112  # rows that found no room
WINDOW = 120  # torch.profiler windows finished
WINDOW_OPEN = 136  # 1 while one is open
COST = 128  # nanoseconds that the agent spent in the training thread
EPOCH_AT = 144  # steps that were trained when the newest epoch of a loader that is trained on began
TRAINER = 152  # native id of the thread that runs the training loop, 0 until it is known
FEEDER = 160  # native id of the thread that the loop was last woken by, in a queue or for a future
WORLD = 168  # ranks that train together, 0 until it is known

# The control file, written by the supervisor, read by every agent.
CONTROL_BYTES = 64
STOP_AT = 0  # end the training when this many steps are trained, 0 = never
PROFILE = 8  # number of torch.profiler windows asked for so far


def is_ours(folder: str | os.PathLike[str]) -> bool:
    """Whether it is a folder of this user's, and no link. A process may outlive the folder of its run, and
    another user may make one of that name."""
    try:
        found = os.lstat(folder)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def open_ours(path: str | os.PathLike[str], flags: int) -> int:
    """A descriptor of a file; raises OSError for a link, a pipe, or what is another user's."""
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
            raise PermissionError(errno.EPERM, "not a file of this user's")
    except BaseException:
        os.close(handle)
        raise
    return handle


KINDS: dict[int, tuple[str, list[str], str]] = {}  # number -> what duration, a to e, and thing are called


def _kind(number: int, columns: str = "", thing: str = "loader", duration: str = "duration") -> int:
    KINDS[number] = duration, columns.split(), thing
    return number


# Kinds of rows: how a to e are called, and what thing and duration are where they are no loader's number and
# no duration. Nanoseconds end with _ns; "so far": it only grows.
NEXT = _kind(1, "arrivals cpu_ns wait_ns backwards optimizer_steps")  # all so far, but for the CPU inside
# Follows NEXT: clocks of the thread and the process when it began, and the run queue inside.
CLOCKS = _kind(2, "cpu_ns process_cpu_ns run_queue_ns ready next_run_queue_ns", duration="iterator")
EPOCH = _kind(3, "iterator")  # iter(loader)
END = _kind(4, "iterator how wait_ns arrivals backwards")  # EXHAUSTED or FAILED; then so far
FETCH = _kind(5, "cpu_ns run_queue_ns process_cpu_ns storage_bytes major_faults")
# Two that follow FETCH, and one more where container files were opened in it.
BATCH = _kind(6, "collate_cpu_ns samples read_bytes system_ns decode_ns", duration="collate_ns")
COUNT = _kind(7, "fetches opens read_calls minor_faults")  # fetches so far
CONTAINER = _kind(26, "files cpu_ns")
TRANSFORM = _kind(40, "cpu_ns number")  # in one fetch, by the number of the transform's class
SAMPLE = _kind(8, "dataset_index checksum bytes")  # one of those that are compared across epochs
FIRST_BATCH = _kind(25, "checksum place")  # of an iterable data set in a worker; places count from 1
CONTENT = _kind(10, "tensors tensor_bytes other_bytes element_bytes")  # of a batch, and its largest tensor
PADDING = _kind(22, "places padded beyond")  # of a batch of sequences; beyond the longest
PICKLE = _kind(9, "cpu_ns bytes")  # a batch serialised for the pipe
DRAWS = _kind(41, "cpu_ns draws first")  # of indices by the sampler; the first of an epoch, or others
WORKER = _kind(17, "pid worker")  # is born
STOPPED_WORKERS = _kind(36)  # all workers joined
GRAD_MODE = _kind(28, "iterator recording")  # of an iterator's first forward pass
BACKWARD = _kind(11)
OPTIMIZER = _kind(12)
# A backward pass from its last own gradient on, whether gradients were exchanged, and what came before.
EXCHANGE = _kind(20, "cpu_ns run_queue_ns local_ns", thing="exchanged")
COLLECTIVE = _kind(21, "cpu_ns run_queue_ns bytes", thing="site")  # bytes of the first argument
OPERATION = _kind(13, "cpu_ns bytes operation calls", thing="site")  # several calls may share a row
COLLECTION = _kind(15, "generation")  # of garbage
COMPILED = _kind(23, "frames breaks compile_ns recorded")  # by torch.compile so far; CUDA graphs
PROFILER_WINDOW = _kind(16)
# At a sampled batch or STEP: what sampling that one and the next took of the loop's time.
SAMPLING = _kind(19)
# Loops without a loader: a step ends with its backward pass: STEP. FORWARD: from there, or from the
# optimizer step after it, to the call of the next module; FORWARD_END: that call returned; NEXT_STEP: the
# end of the step after a sampled one, if it is not sampled itself.
STEP = _kind(34, "steps cpu_ns process_cpu_ns run_queue_ns")  # so far
FORWARD = _kind(14, "steps cpu_ns run_queue_ns")  # steps so far; CPU and queue of this gap alone
FORWARD_END = _kind(38, "steps")
NEXT_STEP = _kind(27, "steps cpu_ns")  # so far
ZERO_GRAD = _kind(37)
QUEUE_WAIT = _kind(39, duration="waited_ns")  # at a STEP: in queues and for futures since the last
USAGE = _kind(35, "system_ns minor_faults")  # follows CLOCKS or STEP: of the whole process so far
# The device's own clock. Instants and durations are the host's, device_ns is the device's time.
# A step goes from asking for a batch to asking for the next; by the device's clock until it was there, and
# all of it. Copies to the device while it waited: NOTHING says that its copies and waits have no rows.
DEVICE_STEP = _kind(29, "wait_ns whole_ns copies caught_up without_loader")
DEVICE_PART = _kind(30, "device_ns part")  # one of DEVICE_PARTS
DEVICE_COPY = _kind(31, "device_ns bytes bits dtype", thing="site")  # of COPY_BITS, of DTYPES
DEVICE_WAIT = _kind(32, "device_ns call", thing="site")  # of WAITS
ALLOCATOR = _kind(33, "retries requests emptied peak_bytes reserved_bytes")  # emptied may be NOTHING

EXHAUSTED, FAILED = 1, 2
DEVICE_PARTS = ("backward", "optimizer", "checkpoint", "logging")
COPY_BITS = ("pinned", "blocking", "just made", "other stream", "in next")
DTYPES = ("", "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
WAITS = (
    "item", "tolist", "cpu", "to", "copy_", "bool", "int", "float", "index", "complex", "print", "nonzero",
    "mask", "unique", "synchronize", "stream", "event", "empty_cache", "equal",
)  # fmt: skip
OPERATIONS = ("checkpoint", "logging", "copy", "flush")
NOTHING = -1  # a reading that was not to be had
