"""The star transformer on a CPU: ONNX Runtime, with products of 8 bits by 8.

The graph follows from the settings and is built here; a model directory holds weights alone. The
scales of activations are fixed, sums of products are whole numbers, and a text's padding does not
depend on its batch: so its vector has the same bits alone and in any batch.

In the shapes n is the number of texts, L their padded length, h of heads, k the width of a head and
w that of the model.
"""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition

import numpy as np
import onnxruntime

from encoder.model.star_settings import EPSILON, FINE, StarSettings
from encoder.model.star_weights import StarWeights
from encoder.model.weights import F32, I32
from encoder.readers.onnx_graph import FLOAT, INT64, OnnxGraph, Pieces
from encoder.readers.star_inputs import Places, padded_batch

BATCH_TOKENS = 256  # padding included; more take more memory and are no quicker
MOST_RUN_S = 10.0  # one run takes far less
ZERO = 128  # the code of 0 among activations, which are unsigned
VECTORS, TOKENS = "vectors", "tokens"
SLOWER = ["SkipLayerNormFusion"]  # what it makes takes longer than its parts


@dataclass(slots=True)
class StarGraph:
    """Builds the graph of one model from its stored weights."""

    weights: StarWeights
    graph: OnnxGraph

    @property
    def settings(self) -> StarSettings:
        return self.weights.settings

    def build(self) -> Pieces:
        graph, width = self.graph, self.settings.width
        ids = graph.input("ids", INT64, ("n", "L"))
        bias = graph.input("bias", FLOAT, (1, self.settings.heads, "L", "L"))
        unseen = graph.input("unseen", FLOAT, ("n", 1, 1, "L"))  # HIDDEN for padding
        shares = graph.input("shares", FLOAT, ("n", 1, "L"))  # of each token in the mean
        positions = graph.input("positions", FLOAT, ("L", width))
        codes = graph.add("Gather", self._stored("tokens.codes"), ids)
        scales = graph.add("Gather", self._stored("tokens.scales"), ids)
        scales = graph.add("Unsqueeze", scales, self._whole("last", [2]))
        x = graph.add("Mul", graph.add("Cast", codes, to=FLOAT), scales)  # [n, L, w]
        x = self._norm(graph.add("Add", x, positions), "norm")
        bias = graph.add("Add", bias, unseen)  # [n, h, L, L]
        for number in range(self.settings.layers):
            x = self._layer(x, bias, f"layers.{number}")
            if number == self.settings.bridge:
                x = graph.add("Add", x, self._linear(x, "bridge"))
        axes = graph.constant("axes.weight", self.weights["axes.weight"].T.astype(np.float32))
        tokens = graph.add("MatMul", x, axes)  # [n, L, d]
        mean = graph.add("Squeeze", graph.add("MatMul", shares, tokens), self._whole("one", [1]))
        graph.output(VECTORS, mean, ("n", self.settings.dim))
        graph.output(TOKENS, tokens, ("n", "L", self.settings.dim))
        return graph.model()

    def _layer(self, x: str, bias: str, name: str) -> str:
        graph, heads = self.graph, self.settings.heads
        projected = self._linear(x, f"{name}.attention.query_key_value")  # [n, L, 3w]
        by_head = graph.add("Reshape", projected, self._whole("by head", [0, 0, 3 * heads, -1]))
        q, k, v = (
            graph.add(
                "Slice", by_head, self._whole(f"head {part * heads}", [part * heads]),
                self._whole(f"head {(part + 1) * heads}", [(part + 1) * heads]),
                self._whole("last", [2]),
            )
            for part in range(3)
        )  # fmt: skip
        q = graph.add("Transpose", q, perm=[0, 2, 1, 3])  # [n, h, L, k]; scaled when it is stored
        k = graph.add("Transpose", k, perm=[0, 2, 3, 1])  # [n, h, k, L]
        v = graph.add("Transpose", v, perm=[0, 2, 1, 3])  # [n, h, L, k]
        logits = graph.add("Add", graph.add("MatMul", q, k), bias)  # [n, h, L, L]
        mixed = graph.add("MatMul", graph.add("Softmax", logits, axis=-1), v)
        mixed = graph.add("Transpose", mixed, perm=[0, 2, 1, 3])  # [n, L, h, k]
        joined = graph.add("Reshape", mixed, self._whole("joined", [0, 0, self.settings.width]))
        y = self._linear(joined, f"{name}.attention.output")
        x = self._norm(graph.add("Add", x, y), f"{name}.attention_norm")
        wide = graph.add("Gelu", self._linear(x, f"{name}.widen"))  # [n, L, inner]
        return self._norm(graph.add("Add", x, self._linear(wide, f"{name}.narrow")), f"{name}.norm")

    def _linear(self, x: str, name: str) -> str:
        """The product with a matrix in int8, of activations in a coarse and a fine code."""
        graph = self.graph
        x = graph.add("Mul", x, self._stored(f"{name}.input_factors"))
        coarse = self._rounded(x, self._stored(f"{name}.input_scale"))
        fine_scale = np.asarray(self.weights[f"{name}.input_scale"] / FINE, np.float32)
        rest = graph.add("Sub", x, coarse)
        fine = self._rounded(rest, graph.constant(f"{name}.fine_scale", fine_scale))
        # ONNX Runtime adds the bias within the first product.
        product = graph.add("MatMul", coarse, self._matrix(name))
        product = graph.add("Add", product, self._stored(f"{name}.bias"))
        return graph.add("Add", product, graph.add("MatMul", fine, self._matrix(name)))

    def _rounded(self, x: str, scale: str) -> str:
        """The nearest multiples of a scale, which ONNX Runtime multiplies as uint8."""
        zero = self.graph.constant("zero", np.array(ZERO, np.uint8))
        codes = self.graph.add("QuantizeLinear", x, scale, zero)
        return self.graph.add("DequantizeLinear", codes, scale, zero)

    def _matrix(self, name: str) -> str:
        codes, scales = self._stored(f"{name}.codes"), self._stored(f"{name}.scales")
        return self.graph.add("DequantizeLinear", codes, scales, axis=1)

    def _norm(self, x: str, name: str) -> str:
        return self.graph.add(
            "LayerNormalization", x, self._stored(f"{name}.weight"), self._stored(f"{name}.bias"),
            axis=-1, epsilon=EPSILON,
        )  # fmt: skip

    def _stored(self, name: str) -> str:
        return self.graph.constant(name, self.weights[name])

    def _whole(self, name: str, values: Sequence[int]) -> str:
        """A constant of whole numbers."""
        return self.graph.constant(name, np.array(values, np.int64))


class Runs:
    """Keeps count of the threads in ONNX Runtime, so that Python ends after the last of them.

    A daemon thread that Python ends while it runs C++ would abort the process.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._changed, self._count, self._ended = Condition(), 0, False

    def __enter__(self) -> None:
        with self._changed:
            while self._ended:
                self._changed.wait()  # for ever: Python ends
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def end(self) -> None:
        """Waits until no thread is in ONNX Runtime; from now on none comes in."""
        with self._changed:
            self._ended = True
            self._changed.wait_for(lambda: not self._count, MOST_RUN_S)


RUNS = Runs()
atexit.register(RUNS.end)
os.register_at_fork(after_in_child=RUNS.reset)  # threads stay with the parent


@contextmanager
def as_file(model: Pieces) -> Iterator[str | bytes]:
    """The path of a file in memory that holds a model, or its bytes where there are no such files.

    ONNX Runtime keeps a copy of bytes that it is given.
    """
    if not hasattr(os, "memfd_create"):
        yield b"".join(model)
        return
    with os.fdopen(os.memfd_create("star"), "wb") as file:
        file.writelines(model)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


class StarOnnx:
    """Reads texts as token ids; thread-safe."""

    batch_tokens, keeps_tokens = BATCH_TOKENS, True

    def __init__(self, weights: StarWeights) -> None:
        self.settings, self._places = weights.settings, Places(weights)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # the encoder gives each thread texts of its own
        options.enable_mem_pattern = False  # it keeps memory for each shape of a batch
        options.enable_cpu_mem_arena = False  # it keeps the most that a run took
        with RUNS, as_file(StarGraph(weights, OnnxGraph()).build()) as model:
            self._session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"], disabled_optimizers=SLOWER
            )

    def vectors(self, texts: Sequence[I32]) -> F32:
        """The vectors of texts of one padded length: [n, d], not normalised."""
        (vectors,) = self._run([VECTORS], texts)
        return vectors

    def tokens(self, texts: Sequence[I32]) -> F32:
        """The vectors of their tokens, whose mean is the text's: [n, L, d]."""
        (tokens,) = self._run([TOKENS], texts)
        return tokens

    def both(self, texts: Sequence[I32]) -> tuple[F32, F32]:
        vectors, tokens = self._run([VECTORS, TOKENS], texts)
        return vectors, tokens

    def _run(self, outputs: Sequence[str], texts: Sequence[I32]) -> list[F32]:
        batch = padded_batch(texts)
        length = batch.ids.shape[1]
        inputs = {
            "ids": batch.ids,
            "bias": self._places.bias(length),
            "unseen": batch.unseen,
            "shares": batch.shares,
            "positions": self._places.positions(length),
        }
        with RUNS:
            values = self._session.run(outputs, inputs)
        return [np.asarray(value, np.float32) for value in values]
