"""The same sense on real GPUs, where there are some."""

import subprocess
import sys
import time

import pytest

from bottleneck_doctor.assemble.device import read_drivers
from bottleneck_doctor.model.instruments import Sample
from bottleneck_doctor.model.run import Gap
from bottleneck_doctor.sense.gpus import SLOW_EVERY, Gpus
from bottleneck_doctor.sense.nvml import load_nvml

pytestmark = pytest.mark.gpu

NAME_IT = "import torch; print(torch.cuda.get_device_properties(0).uuid)"


@pytest.fixture
def gpus() -> Gpus:
    """The GPUs of this machine."""
    binding = load_nvml()
    assert not isinstance(binding, Gap), binding
    return Gpus(binding)


def test_shares_are_shares_and_each_call_answers_in_time(gpus: Gpus) -> None:
    values = {}
    for _ in range(SLOW_EVERY + 1):  # the monitors answer from the second look on
        values |= gpus.read()
        time.sleep(0.05)
    shares = {name: value for name, value in values.items() if name.endswith("_share")}
    assert shares
    assert {name: value for name, value in shares.items() if not 0 <= float(value) <= 1.01} == {}
    assert [gap for gap in gpus.gaps() if "asked again" in gap.why] == []


def test_torchs_name_of_a_device_is_the_drivers(gpus: Gpus) -> None:
    named = subprocess.run([sys.executable, "-c", NAME_IT], capture_output=True, text=True, check=True)
    drivers = read_drivers([Sample(0, "gpu_static", gpus.static())], [])
    assert drivers.find("cuda", named.stdout.strip(), 63) is not None
