"""Matrix products in bf16, where the machine has instructions for them."""

import torch
from llvmlite import binding

FEATURES = ("avx512bf16", "amx-bf16")
HAS_FAST_BF16 = any(binding.get_host_cpu_features().get(feature) for feature in FEATURES)


def bf16_autocast(device: str | torch.device, enabled: bool = True) -> torch.autocast:
    """Compute products in bf16 within the block, on CPUs where that is faster."""
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=enabled and HAS_FAST_BF16 and kind == "cpu")
