"""Writes an ONNX model in pieces: the few messages of its format that a graph needs.

https://github.com/onnx/onnx/blob/main/onnx/onnx.proto numbers the fields. The format is protobuf's:
each field is its number and kind, then a number, or a length and bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from struct import pack

import numpy as np
from numpy.typing import NDArray

OPSET, FORMAT = 21, 10
FLOAT, UINT8, INT8, INT64, BOOL = 1, 2, 3, 7, 9  # the types of tensors
TYPES = {
    np.dtype(np.float32): FLOAT,
    np.dtype(np.uint8): UINT8,
    np.dtype(np.int8): INT8,
    np.dtype(np.int64): INT64,
}
ATTRIBUTE_FLOAT, ATTRIBUTE_INT, ATTRIBUTE_INTS = 1, 2, 7
Attribute = float | int | Sequence[int]
Shape = Sequence[int | str]  # a name stands for a length that is known when the graph runs
Pieces = list[bytes | memoryview]  # the arrays of a large model are not copied


@dataclass(slots=True)
class OnnxGraph:
    """A graph under construction: each operation gives the name of its result."""

    nodes: list[bytes] = field(default_factory=list)
    constants: dict[str, Pieces] = field(default_factory=dict)
    inputs: list[bytes] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)

    def input(self, name: str, kind: int, shape: Shape) -> str:
        self.inputs.append(_value(name, kind, shape))
        return name

    def constant(self, name: str, array: NDArray[np.generic]) -> str:
        """A tensor of the graph; the same name stands for the same tensor."""
        if name not in self.constants:
            dims = b"".join(_number(1, size) for size in array.shape)
            kind = _number(2, TYPES[array.dtype])
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            head = dims + kind + _text(8, name) + _key(9, 2) + _varint(len(data))
            self.constants[name] = _message(5, [head, data])
        return name

    def add(self, operator: str, *inputs: str, **attributes: Attribute) -> str:
        name = f"{operator}_{len(self.nodes)}"
        parts = [_text(1, value) for value in inputs]
        parts += [_text(2, name), _text(4, operator)]
        parts += [_bytes(5, _attribute(key, value)) for key, value in attributes.items()]
        self.nodes.append(b"".join(parts))
        return name

    def output(self, name: str, result: str, shape: Shape) -> None:
        """Give a result, of floats, out under a name."""
        self.nodes.append(_text(1, result) + _text(2, name) + _text(4, "Identity"))
        self.outputs.append(_value(name, FLOAT, shape))

    def model(self) -> Pieces:
        """The pieces of the whole model, one after the other."""
        graph: Pieces = [
            *(_bytes(1, node) for node in self.nodes),
            _text(2, "graph"),
            *chain.from_iterable(self.constants.values()),
            *(_bytes(11, value) for value in self.inputs),
            *(_bytes(12, value) for value in self.outputs),
        ]
        return [_number(1, FORMAT), *_message(7, graph), _bytes(8, _number(2, OPSET))]


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _number(20, ATTRIBUTE_FLOAT) + _key(2, 5) + pack("<f", value)
    if isinstance(value, int):
        return _text(1, name) + _number(20, ATTRIBUTE_INT) + _number(3, value)
    numbers = b"".join(_number(8, number) for number in value)
    return _text(1, name) + _number(20, ATTRIBUTE_INTS) + numbers


def _value(name: str, kind: int, shape: Shape) -> bytes:
    """A name with its type and shape."""
    dims = b"".join(
        _bytes(1, _number(1, size) if isinstance(size, int) else _text(2, size)) for size in shape
    )
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, dims)))


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _message(number: int, pieces: Pieces) -> Pieces:
    """A field that holds another message."""
    return [_key(number, 2) + _varint(sum(map(len, pieces))), *pieces]


def _bytes(number: int, value: bytes) -> bytes:
    return _key(number, 2) + _varint(len(value)) + value


def _number(number: int, value: int) -> bytes:
    return _key(number, 0) + _varint(value % 2**64)


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
