"""The settings of a model."""

from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from typing import Any, Self

from encoder.errors import InputError

MAX_TOKENS = 2048


class Side(IntEnum):
    """The side of a text in the Siamese pair; gates and positions differ by side."""

    POST = 0
    ARTICLE = 1


STARS = ("paper", "none")


@dataclass(frozen=True, slots=True)
class AstConfig:
    """The settings of an Adaptive Siamese Transformer.

    `star`: "paper" is the published form; "none" leaves only the gated mean.
    """

    dim: int = 300
    heads: int = 10
    head_dim: int = 30
    window: int = 2
    layers: int = 1
    star: str = "paper"
    residual: bool = False
    post_tokens: int = 128
    article_tokens: int = 1024
    lead: int = 0  # first tokens and words of an article that count twice

    def __post_init__(self) -> None:
        for key, low, high in (
            ("dim", 1, 4096),
            ("heads", 1, 64),
            ("head_dim", 1, 512),
            ("window", 0, 16),
            ("layers", 1, 8),
            ("post_tokens", 1, MAX_TOKENS),
            ("article_tokens", 1, MAX_TOKENS),
            ("lead", 0, MAX_TOKENS),
        ):
            value = getattr(self, key)
            if type(value) is not int or not low <= value <= high:
                raise InputError(f"{key}: {value!r} is not a whole number from {low} to {high}")
        if type(self.residual) is not bool:
            raise InputError(f"residual: {self.residual!r} is neither true nor false")
        if self.star not in STARS:
            raise InputError(f"star: {self.star!r} is not one of {', '.join(STARS)}")
        if self.star != "paper" and not self.residual:
            raise InputError(f"star: {self.star} needs the gated mean; set residual: true")

    @property
    def has_star(self) -> bool:
        return self.star != "none"

    @property
    def inner(self) -> int:
        """The total width of all heads."""
        return self.heads * self.head_dim

    def cap(self, side: Side) -> int:
        """The maximum of tokens of a text on this side."""
        return self.article_tokens if side is Side.ARTICLE else self.post_tokens

    def as_dict(self) -> dict[str, int | bool | str]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Create settings from a manifest; an unknown or missing key raises InputError."""
        names = {f.name for f in fields(cls)}
        if set(values) != names:
            odd = ", ".join(map(repr, sorted(names ^ set(values))))
            raise InputError(f"model settings: unknown or missing key {odd}")
        return cls(**values)
