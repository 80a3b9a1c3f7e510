"""Matrix products in bf16, where the processor has them and is several times as fast by them."""

import torch
from llvmlite import binding

FEATURES = ("avx512bf16", "amx-bf16")
FAST = any(binding.get_host_cpu_features().get(feature) for feature in FEATURES)


def halves(device: str | torch.device, wanted: bool = True) -> torch.autocast:
    """Within it products are in bf16; on a device that gains nothing by it, as they always are."""
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=wanted and FAST and kind == "cpu")
