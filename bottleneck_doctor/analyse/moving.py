"""What it takes to move a batch from a worker to the loop, in CPU of both.

A feeder thread of the worker pickles the batch. A tensor goes as the descriptor of shared memory, for which
the loop asks one more thread of the worker, over a socket and with a challenge on either side
[multiprocessing.resource_sharer].
"""

from __future__ import annotations

from statistics import median

from ..model.diagnosis import Step
from ..model.fetches import Payload

# To receive a batch, and each tensor in it; to pickle them; to hand out a descriptor. Of the 36 runs with
# workers in tests/golden/accuracy, those with two tensors a batch took 0.70 and 0.28 ms (medians), the one
# with 200 took 28 and 7.3 ms; descriptors took a feeder's thread 0.25 ms by its schedstat.
RECEIVED_S, RECEIVED_TENSOR_S = 3.7e-4, 1.65e-4
PICKLED_S, PICKLED_TENSOR_S = 2e-4, 3.6e-5
HANDED_OUT_S = 2e-4
# loop CPU per byte that travels pickled through the pipe (measured: 10 MB in 6.1 ms)
PICKLED_S_PER_BYTE = 6e-10
# To hand one over, both sides together, on the machines of 25 of those runs: median, and how much slower the
# slowest was. A larger ratio has causes other than handing over.
HANDED_S, SLOWER = 2.4e-4, 2.5


def moving_of(
    payload: Payload, steps: list[Step], workers: int, handed_s: float | None
) -> tuple[float, float, float]:
    """CPU seconds per batch: of the loop, of the worker, and the worker's part that overlaps its next fetch.
    Measured with workers; without, estimated from a batch's contents and ``handed_s``, the measured time to
    hand over a descriptor on this machine."""
    pickled = PICKLED_S_PER_BYTE * payload.other_bytes
    receive = RECEIVED_S + RECEIVED_TENSOR_S * payload.tensors + pickled
    hand_out = HANDED_OUT_S * payload.tensors
    if workers:
        known = [step.wait_cpu for step in steps if step.wait_cpu is not None]
        hand_out *= payload.serialise_cpu_s > 0  # a thread of the loop's own process sends nothing
        return (median(known) if known else receive), payload.serialise_cpu_s + hand_out, hand_out
    send = PICKLED_S + PICKLED_TENSOR_S * payload.tensors + 2 * pickled + hand_out
    slow = min(SLOWER, max(1 / SLOWER, (handed_s or HANDED_S) / HANDED_S))
    return slow * receive, slow * send, slow * hand_out
