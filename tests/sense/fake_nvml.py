"""An NVML of plain values: GPUs are dicts, a call answers from them, and any call can be told to fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class NotSupported(Exception):
    """What the binding raises for a call that a GPU does not know."""


class FakeNvml:
    """Holds GPUs; ``broken`` names calls that raise, ``asked`` counts the calls made."""

    def __init__(self, *gpus: dict[str, Any], without: tuple[str, ...] = ()) -> None:
        self.gpus = list(gpus)
        self.broken: set[str] = set()
        self.without = without
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in self.without or f"_{name}" not in dir(type(self)):
            raise AttributeError(name)
        real = object.__getattribute__(self, f"_{name}")

        def call(*arguments: Any) -> Any:
            self.asked.append(name)
            if name in self.broken:
                raise NotSupported("Not Supported")
            return real(*arguments)

        return call

    def _nvmlShutdown(self) -> None:
        self.gpus.clear()

    def _nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def _nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        return self.gpus[index]

    def _nvmlDeviceGetIndex(self, gpu: dict[str, Any]) -> int:
        return next(place for place, one in enumerate(self.gpus) if one is gpu)

    def _nvmlDeviceGetName(self, gpu: dict[str, Any]) -> bytes:
        return str(gpu["name"]).encode()

    def _nvmlDeviceGetUUID(self, gpu: dict[str, Any]) -> str:
        return str(gpu["uuid"])

    def _nvmlDeviceGetHandleByUUID(self, uuid: str) -> dict[str, Any]:
        for gpu in self.gpus:
            for part in gpu.get("parts", []):
                if part["uuid"] == uuid:
                    return {**part, "whole": gpu}
        raise NotSupported("Not Found")

    def _nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, part: dict[str, Any]) -> Any:
        return part["whole"]

    def _nvmlDeviceGetMigMode(self, gpu: dict[str, Any]) -> list[int]:
        return [int("parts" in gpu), 0]

    def _nvmlDeviceGetAttributes(self, part: dict[str, Any]) -> Any:
        return SimpleNamespace(gpuInstanceSliceCount=part["slices"])

    def _nvmlDeviceGetCudaComputeCapability(self, gpu: dict[str, Any]) -> tuple[int, int]:
        return 9, 0

    def _nvmlDeviceGetUtilizationRates(self, gpu: dict[str, Any]) -> Any:
        return SimpleNamespace(gpu=gpu["busy"], memory=10)

    def _nvmlDeviceGetMemoryInfo(self, gpu: dict[str, Any]) -> Any:
        return SimpleNamespace(used=gpu["used"], total=gpu["total"])

    def _nvmlDeviceGetPowerUsage(self, gpu: dict[str, Any]) -> int:
        return 350_000

    def _nvmlDeviceGetEnforcedPowerLimit(self, gpu: dict[str, Any]) -> int:
        return 700_000

    def _nvmlDeviceGetPowerManagementDefaultLimit(self, gpu: dict[str, Any]) -> int:
        return 700_000

    def _nvmlDeviceGetClockInfo(self, gpu: dict[str, Any], clock: int) -> int:
        return {1: 1200, 2: 2600}[clock]

    def _nvmlDeviceGetMaxClockInfo(self, gpu: dict[str, Any], clock: int) -> int:
        return {1: 1980, 2: 2619}[clock]

    def _nvmlDeviceGetCurrentClocksEventReasons(self, gpu: dict[str, Any]) -> int:
        return int(gpu.get("reasons", 0))

    def _nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: dict[str, Any]) -> int:
        return int(gpu.get("reasons", 0))

    def _nvmlDeviceGetTemperature(self, gpu: dict[str, Any], sensor: int) -> int:
        return 60 + sensor

    def _nvmlDeviceGetCurrPcieLinkGeneration(self, gpu: dict[str, Any]) -> int:
        return 3

    def _nvmlDeviceGetMaxPcieLinkGeneration(self, gpu: dict[str, Any]) -> int:
        return 5

    def _nvmlDeviceGetCurrPcieLinkWidth(self, gpu: dict[str, Any]) -> int:
        return 8

    def _nvmlDeviceGetMaxPcieLinkWidth(self, gpu: dict[str, Any]) -> int:
        return 16

    def _nvmlDeviceGetPcieReplayCounter(self, gpu: dict[str, Any]) -> int:
        return 0

    def _nvmlDeviceGetComputeRunningProcesses(self, gpu: dict[str, Any]) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.get("processes", [])]

    def _nvmlDeviceGetProcessUtilization(self, gpu: dict[str, Any], since: int) -> list[Any]:
        if "busy_processes" not in gpu:
            raise NotSupported("Not Found")
        at = since + 1
        return [SimpleNamespace(pid=pid, smUtil=sm, timeStamp=at) for pid, sm in gpu["busy_processes"]]


def gpu(uuid: str = "GPU-aa", name: str = "H100", **values: Any) -> dict[str, Any]:
    """A GPU of the fake, half busy and a quarter full unless told otherwise."""
    return {"uuid": uuid, "name": name, "busy": 50, "used": 20, "total": 80, **values}
