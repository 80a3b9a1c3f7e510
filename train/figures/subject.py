"""What the figures are drawn of: a model, labelled pairs, a case study."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import encoder
from encoder import Encoder
from encoder.errors import InputError
from train.data.readers import Passed
from train.data.splits import Split, split_of_event
from train.protocol.sets import CrisisSet, PairSet, read_crises, read_pair_sets


class MissingDataError(InputError):
    """A figure cannot be drawn for want of data; the message says what it needs."""


@dataclass(frozen=True, eq=False)
class Subject:
    """The model and the data; each part is read when a figure first asks for it."""

    model: str
    data: Path | None
    case: Path | None
    split: Split | None
    rate: float
    device: str
    passed: Passed = field(default_factory=Passed)

    @cached_property
    def encoder(self) -> Encoder:
        """The model, loaded."""
        return encoder.load(self.model, device=self.device)

    @cached_property
    def pair_sets(self) -> list[PairSet]:
        """The sets of pairs of the split; never none."""
        if self.data is None or not (self.data / "pairs").is_dir():
            raise MissingDataError("needs --data with a folder pairs/")
        sets = read_pair_sets(self.data, self.split, self.passed)
        if not sets:
            raise MissingDataError(f"needs pairs of the split {self.split}; {self.data} holds none")
        return sets

    @cached_property
    def crises(self) -> list[CrisisSet]:
        """The events of the split, if there are any."""
        if self.data is None:
            return []
        found = read_crises(self.data, self.passed)
        return [one for one in found if self.split in (None, split_of_event(one.name))]
