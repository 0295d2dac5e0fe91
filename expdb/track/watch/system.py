"""The machine beside training: processor, memory that is left, and the GPU where NVML is there.

NVML is read through `pynvml` (package nvidia-ml-py) if it is installed; without it there are no
such values, and nothing is said.
"""

from __future__ import annotations

import importlib
from typing import Any


class System:
    """Reads the machine; the use of the processor is since the last look."""

    def __init__(self, device: Any) -> None:
        import psutil

        self._psutil = psutil
        self._process = psutil.Process()
        self._process.cpu_percent(None)  # the first one has nothing to compare with
        self._nvml, self._gpu = _gpu(device)

    def read(self) -> dict[str, float]:
        """Return what the machine shows now."""
        found = {
            "sys/rss_bytes": float(self._process.memory_info().rss),
            "sys/cpu_pct": float(self._process.cpu_percent(None)),
            "sys/memory_available_bytes": float(self._psutil.virtual_memory().available),
        }
        if self._nvml is not None:
            found |= self._read_gpu()
        return found

    def _read_gpu(self) -> dict[str, float]:
        nvml, gpu = self._nvml, self._gpu
        try:
            return {
                "sys/gpu_util_pct": float(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu),
                "sys/gpu_temperature_c": float(nvml.nvmlDeviceGetTemperature(gpu, 0)),
                "sys/gpu_power_w": nvml.nvmlDeviceGetPowerUsage(gpu) / 1000.0,
                "sys/gpu_memory_bytes": float(nvml.nvmlDeviceGetMemoryInfo(gpu).used),
            }
        except nvml.NVMLError:
            self._nvml = None  # not supported here, or the GPU is gone: it stays so
            return {}


def _gpu(device: Any) -> tuple[Any, Any]:
    """Return NVML and its handle of a CUDA device; None twice where there is none."""
    if device.type != "cuda":
        return None, None
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None, None
    import torch

    try:
        nvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        return nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
    except nvml.NVMLError:
        return None, None
