"""The matches of a Dataset of Ray, which brings ray."""

from typing import Any

from newsift.matching import ID, MATCH_COLUMNS, Sieve


def matches(ds: Any, sieve: Sieve, text: str = "text", id: str | None = None) -> Any:
    """A Dataset of the matches alone: id, match_id, event, seed_id, score, threshold.

    Each worker of Ray loads the model once. Ids are text.
    """
    name = id or ID

    def match_batch(table: Any) -> Any:
        import pandas as pd

        if name in table.column_names:  # pandas would round whole numbers where one is missing
            place = table.column_names.index(name)
            table = table.set_column(place, name, table.column(name).cast("string"))
        rows = pd.DataFrame(
            sieve.matches(table.to_pandas(ignore_metadata=True), text, id), columns=MATCH_COLUMNS
        )
        return rows.astype({"id": str})

    return ds.map_batches(match_batch, batch_format="pyarrow")
