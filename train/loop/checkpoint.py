"""Checkpoints: written atomically, in safetensors, so that reading one runs no code of it."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.optim import Optimizer

from encoder.errors import InputError
from encoder.support.files import write_atomically

FORMAT = "newsift.checkpoint/1"
OPTIMIZER = "adam/"  # a prefix of names


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tensors by name, and the plain values beside them."""

    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any] = field(default_factory=dict)

    def write(self, file: Path) -> None:
        """Put the state in place of the file in one step; a full disk leaves the old one."""
        metadata = {"format": FORMAT, "values": json.dumps(dict(self.values))}
        parts = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        write_atomically(file, save(parts, metadata=metadata))

    @classmethod
    def read(cls, file: Path) -> "Checkpoint | None":
        """The state in the file; None if there is no such file."""
        if not file.exists():
            return None
        try:
            with safe_open(file, framework="pt") as reader:
                metadata = reader.metadata() or {}
                if metadata.get("format") != FORMAT:
                    raise InputError(f"{file}: is not {FORMAT}; remove it to start again")
                tensors = {name: reader.get_tensor(name) for name in reader.keys()}  # noqa: SIM118
            return cls(tensors, json.loads(metadata["values"]))
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{file}: cannot be read; remove it to start again ({error})"
            ) from error


def select_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Select tensors by a prefix of their names, and remove the prefix."""
    return {name[len(prefix) :]: x for name, x in tensors.items() if name.startswith(prefix)}


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """What an optimizer knows of each parameter, by names for a checkpoint."""
    return {
        f"{OPTIMIZER}{number}/{key}": value
        for number, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Set an optimizer to its state in a checkpoint."""
    state: defaultdict[int, dict[str, Tensor]] = defaultdict(dict)
    for name, value in select_prefix(tensors, OPTIMIZER).items():
        number, _, key = name.partition("/")
        state[int(number)][key] = value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": dict(state)})
