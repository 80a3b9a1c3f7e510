"""Matrix products in bf16, where the machine has quick instructions for them."""

import torch
from llvmlite import binding

# Without AMX, Intel's instructions for bf16 are slower than float32.
FEATURES = binding.get_host_cpu_features()
IS_AMD = binding.get_host_cpu_name().startswith("znver")
HAS_FAST_BF16 = bool(FEATURES.get("amx-bf16") or (IS_AMD and FEATURES.get("avx512bf16")))


def bf16_autocast(device: str | torch.device, enabled: bool = True) -> torch.autocast:
    """Compute products in bf16 within the block, on CPUs where that is faster."""
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=enabled and HAS_FAST_BF16 and kind == "cpu")
