"""The treaty between the agent that writes rows and the supervisor that reads them.

One file per process, ``<pid>-<start>.rows``: a header page, then rows of 64 bytes. A row's kind is packed
last, so a row whose kind is not zero is whole even if its writer was killed. All times are
CLOCK_MONOTONIC in nanoseconds. Text goes to ``<pid>-<start>.facts``, one JSON object a line.

Change anything here and raise VERSION: an old agent may outlive a new supervisor.
"""

from __future__ import annotations

import struct

MAGIC = b"BDOCROWS"
VERSION = 8
HEADER_BYTES = 4096
FIRST_BYTES = 32 * 1024  # of a file's rows are reserved first: most workers of a long run write few
CHUNK_BYTES = 512 * 1024  # what is reserved doubles up to this, and grows by this
MAX_CHUNKS = 16

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

# The control file, written by the supervisor, read by every agent.
CONTROL_BYTES = 64
STOP_AT = 0  # end the training when this many steps are trained, 0 = never
PROFILE = 8  # number of torch.profiler windows asked for so far

# Kinds of rows. thing = the loader's number in its process, unless said otherwise.
NEXT = 1  # a..e: arrivals, thread CPU inside, wait so far, backwards so far, optimizer steps so far
LOOP = (
    2  # follows NEXT: duration = iterator; a..e: thread CPU at entry, process CPU, queue, ready, queue inside
)
EPOCH = 3  # iter(loader): a iterator number
END = 4  # the iterator is exhausted (b = 1) or failed (b = 2): a iterator, c wait so far, d arrivals
FETCH = 5  # a..e: thread CPU, run queue, process CPU, bytes from storage, major faults
BATCH = 6  # follows FETCH: duration of collate; a..e: collate CPU, samples, bytes read, system CPU, decoding
COUNT = 7  # follows BATCH: duration of all fetches so far; a..d: fetches, opens, read calls, minor faults
SAMPLE = 8  # one dataset index: a..d: index, checksum, bytes, thread CPU
PICKLE = 9  # a batch serialised for the pipe: a CPU, b bytes
CARGO = 10  # a batch's content: a tensors, b tensor bytes, c other bytes, d bytes of the largest's element
BACKWARD = 11  # a thread CPU
OPTIMIZER = 12  # a optimizer steps so far, b thread CPU
OPERATION = 13  # thing = site; a thread CPU, b bytes, c index into OPERATIONS, d calls it sums up, 0 = one
PASS = 34  # a step of a loop without a loader ends, with its backward pass; a..e: steps so far, thread CPU,
# process CPU, run queue, optimizer steps so far
AFTER_LOOK = (
    27  # the step after a PASS has ended, and no other is looked at yet: a steps so far, b thread CPU
)
FORWARDED = 38  # the module of that FORWARD has returned: a steps so far
ZEROED = 37  # gradients were zeroed, in a step that is looked at: a thread CPU
QUEUED = 39  # at a PASS: duration = what the loop's thread waited in queues and for futures meanwhile
USAGE = 35  # follows LOOP or PASS: a system CPU of the whole process, b minor faults
FORWARD = 14  # the first module called after a PASS: from the last backward pass or optimizer step before it,
# duration until it; a..c: steps so far, thread CPU and run queue meanwhile
COLLECTION = 15  # garbage collection: a generation
WINDOWED = 16  # a torch.profiler window: duration
WORKERS = 17  # a worker's birth: a pid, b worker number
STOPPED = 18  # the agent ended the training: a trained steps
LOOK = 19  # after a close look at a batch or PASS: duration = what that and the next took of the loop's time
EXCHANGE = 20  # a backward pass from its last own gradient on: a..e: thread CPU, run queue, then time, thread
# CPU and run queue of the pass before that; thing = 1 when gradients were exchanged
COLLECTIVE = 21  # thing = site; a thread CPU, b run queue, c bytes of the first argument
PADDING = 22  # a batch of token numbers: a places, b of these padding
COMPILED = 23  # torch.compile so far: a frames, b graph breaks, c nanoseconds
CONTAINER = 26  # follows COUNT: duration of opening container files in this fetch; a files opened, b CPU
MAKING = 24  # a CPU, b bytes or draws, c index into MAKINGS, d the transform's number, or 1 = an epoch begins
FIRSTLING = 25  # one of the first batches of an iterable data set in a worker: a checksum, b place from 1
GRAD_MODE = 28  # the first forward pass of an iterator: a iterator, b whether it records for a backward pass
# The device's own clock. Instants and durations are the host's, `a` is the device's time, in nanoseconds.
DEVICE_STEP = 29  # from asking for a batch to asking for the next: a until it was there, b the whole,
# c copies to the device issued meanwhile (NOTHING: this step's copies and waits have no rows), d = 1: the
# device had caught up with the loop, e = 1: no loader
DEVICE_PART = 30  # c index into DEVICE_PARTS
DEVICE_COPY = 31  # thing = site; b bytes, c thread CPU, d bits of COPY_BITS, e index into DTYPES
DEVICE_WAIT = 32  # thing = site; b index into WAITS, c thread CPU
ALLOCATOR = 33  # a retries, b requests to the driver, c calls of empty_cache (NOTHING: not counted), d peak
# bytes, e reserved bytes
STOPPED_WORKERS = 36  # thing = the loader: its workers were told to end, and had

DEVICE_PARTS = ("backward", "optimizer", "checkpoint", "logging")
COPY_BITS = ("pinned", "blocking", "just made", "other stream", "in next")
DTYPES = ("", "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
WAITS = (
    "item", "tolist", "cpu", "to", "copy_", "bool", "int", "float", "index", "complex", "print", "nonzero",
    "mask", "unique", "synchronize", "stream", "event", "empty_cache", "equal",
)  # fmt: skip
MAKINGS = ("unpack", "transform", "sampler")
OPERATIONS = ("checkpoint", "logging", "copy", "flush")
NOTHING = -1  # a reading that was not to be had
