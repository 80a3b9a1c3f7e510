"""The matches of a Dataset of Ray, which brings ray and pyarrow."""

from typing import Any

from newsift.matching import MATCH_COLUMNS, Sieve

NUMBERS = ("score", "threshold")


def matches(ds: Any, sieve: Sieve, text: str = "text", id: str | None = None) -> Any:
    """A Dataset of the matches alone: id, match_id, event, seed_id, score, threshold.

    Each worker of Ray loads the model once. Ids are text.
    """

    def match_batch(table: Any) -> Any:
        import pyarrow as pa

        types = {name: pa.float64() if name in NUMBERS else pa.string() for name in MATCH_COLUMNS}
        rows = [row | {"id": str(row["id"])} for row in sieve.matches(table, text, id)]
        return pa.Table.from_pylist(rows, pa.schema(types))

    return ds.map_batches(match_batch, batch_format="pyarrow")
