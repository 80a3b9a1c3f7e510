"""The projections folded into one matrix, which makes a table row of an embedding."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from encoder.backends.kernel.row_layout import Shape
from encoder.model.weights import F32, I64, AttentionWeights, Weights
from encoder.simd.tile import LANES

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Projection:
    """row = matrixᵀ · embedding + bias, in float32; `classes` says which columns share a scale."""

    matrix: F32  # [dim, row]
    bias: F32  # [row]
    classes: I64  # [row]


def wide(array: F32) -> F64:
    """An array in float64: products of two projections are formed once, so they may be exact."""
    return array.astype(np.float64)


def head_columns(shape: Shape) -> I64:
    """For each int16 of a row's queries or keys the column of the projection, or -1 for padding."""
    grid = (shape.banks, shape.groups, shape.steps, LANES, 2)
    bank, group, step, lane, half = np.indices(grid).reshape(5, -1)
    part, within = lane // shape.group_heads, lane % shape.group_heads
    in_bank = group * shape.group_heads + within
    head = bank * shape.bank_heads + in_bank
    place = (part * shape.steps + step) * 2 + half
    used = (part < shape.parts) & (in_bank < shape.bank_heads) & (head < shape.heads)
    return np.where(used & (place < shape.head_dim), head * shape.head_dim + place, -1)


def value_columns(shape: Shape) -> I64:
    """For each int16 of a row's values the column head · dim + dimension, or -1 for padding."""
    pair, column, half = np.indices((shape.pairs, shape.width, 2)).reshape(3, -1)
    in_pair = 2 * pair + half
    bank, within = in_pair // shape.bank_heads, in_pair % shape.bank_heads
    head = bank * shape.bank_heads + within
    used = (head < shape.heads) & (column < shape.dim)
    return np.where(used, head * shape.dim + column, -1)


def folded_values(shape: Shape, attention: AttentionWeights) -> F64:
    """Wo_h · Wv_h of each head, transposed and side by side: [dim, heads · dim]."""
    values = wide(attention.value.weight).reshape(shape.heads, shape.head_dim, shape.dim)
    outputs = wide(attention.output.weight).reshape(shape.dim, shape.heads, shape.head_dim)
    folded: F64 = np.einsum("hkd,ohk->dho", values, outputs, optimize=True)
    return folded.reshape(shape.dim, -1)


def output_bias(attention: AttentionWeights) -> F64:
    """What the biases of values and output add to every new vector, as weights sum to 1."""
    return wide(attention.output.bias) + wide(attention.output.weight) @ wide(attention.value.bias)


def projection(shape: Shape, weights: Weights) -> Projection:
    """The folded projection of a model of one layer, its columns in the order of a table row.

    Biases of keys are left out: they shift all logits of a softmax or entmax row alike.
    """
    ring, star = weights.layers[0].ring, weights.layers[0].star
    heads, root = head_columns(shape), np.sqrt(shape.head_dim)
    in_dim, in_query = np.arange(shape.width), np.arange(shape.query_width)
    parts = (
        (wide(ring.query.weight).T, wide(ring.query.bias), heads),
        (wide(ring.key.weight).T, np.zeros(shape.inner), heads),
        (folded_values(shape, ring), np.zeros(shape.heads * shape.dim), value_columns(shape)),
        (np.eye(shape.dim), np.zeros(shape.dim), np.where(in_dim < shape.dim, in_dim, -1)),
        (
            wide(star.query.weight).T / root,
            wide(star.query.bias) / root,
            np.where(in_query < shape.inner, in_query, -1),
        ),
    )
    matrix = np.zeros((shape.dim, shape.row), np.float32)
    bias = np.zeros(shape.row, np.float32)
    at = 0
    for source, shift, columns in parts:
        used = columns >= 0
        matrix[:, at : at + len(columns)][:, used] = source[:, columns[used]]
        bias[at : at + len(columns)][used] = shift[columns[used]]
        at += len(columns)
    return Projection(matrix, bias, scale_classes(shape))


def scale_classes(shape: Shape) -> I64:
    """Columns that share a scale: all queries, all keys, a dimension's values; others alone."""
    values = 2 + np.indices((shape.pairs, shape.width, 2))[1].ravel()
    rest = 2 + shape.width + np.arange(shape.row - shape.embedding_at)
    sides = np.repeat([0, 1], shape.key_at)
    return np.concatenate([sides, values, rest])
