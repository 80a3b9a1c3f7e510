"""The matches of a Dataset of Ray, which brings ray."""

from typing import Any

from newsift.matching import MATCH_COLUMNS, Sieve


def matches(ds: Any, sieve: Sieve, text: str = "text", id: str | None = None) -> Any:
    """A Dataset of the matches alone: id, match_id, event, seed_id, score, threshold.

    Each worker of Ray loads the model once. Ids are text.
    """

    def match_batch(frame: Any) -> Any:
        import pandas as pd

        rows = pd.DataFrame(sieve.matches(frame, text, id), columns=MATCH_COLUMNS)
        return rows.astype({"id": str})

    return ds.map_batches(match_batch, batch_format="pandas")
