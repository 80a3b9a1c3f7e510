"""The file of embeddings: plain safetensors, however many parts it came in, in bounded memory."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from encoder.embeddings import Embeddings
from encoder.embeddings_file import saving
from encoder.errors import InputError
from tests.encoder.test_embeddings import some


@pytest.mark.parametrize("counts", [[5], [3, 0, 4, 1], [0], [], [1] * 9])
def test_parts_make_one_file(tmp_path: Path, counts: list[int]) -> None:
    path, parts = tmp_path / "e.safetensors", [some(n, seed) for seed, n in enumerate(counts)]
    with saving(path, 7, 0.5, "d") as file:
        for part in parts:
            file.add(part.dense, part.lexical)
    whole, again = Embeddings.concat([some(0), *parts]), Embeddings.load(path)
    np.testing.assert_array_equal(again.dense, whole.dense)
    np.testing.assert_array_equal(again.lexical.indptr, whole.lexical.indptr)
    np.testing.assert_array_equal(again.lexical.slots, whole.lexical.slots)
    np.testing.assert_array_equal(again.lexical.weights, whole.lexical.weights)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_the_file_is_what_safetensors_reads_and_aligned(tmp_path: Path) -> None:
    path = tmp_path / "e.safetensors"
    some(7).save(path)
    named = load_file(path)
    np.testing.assert_array_equal(named["dense"], some(7).dense)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    assert size % 8 == 0
    for name, facts in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__":
            assert facts["data_offsets"][0] % named[name].itemsize == 0


def test_memory_does_not_grow_with_the_parts(tmp_path: Path) -> None:
    part = some(500)

    def peak(parts: int) -> int:
        tracemalloc.start()
        with saving(tmp_path / "e.safetensors", 7, 0.5, "d") as file:
            for _ in range(parts):
                file.add(part.dense, part.lexical)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)
    few, many = peak(200), peak(800)
    assert many < 1.2 * few
    assert (tmp_path / "e.safetensors").stat().st_size > 4 * many


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "e.safetensors"
    some(3).save(path)
    part = some(2)
    with pytest.raises(AttributeError), saving(path, 7, 0.5, "d") as file:
        file.add(part.dense, None)  # type: ignore[arg-type]
    assert len(Embeddings.load(path)) == 3
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="e: cannot be written"):
        some(2).save(tmp_path / "no folder" / "e")
    with pytest.raises(InputError, match="cannot be written"):
        some(2).save(Path("/dev/full/e"))
