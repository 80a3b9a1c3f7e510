"""The matches of a DataFrame of Spark, which brings pyspark."""

from collections.abc import Iterator
from typing import Any

from newsift.matching import ID, MATCH_COLUMNS, Sieve

SCHEMA = "id string, match_id string, event string, seed_id string, score double, threshold double"


def matches(df: Any, sieve: Sieve, text: str = "text", id: str | None = None) -> Any:
    """A DataFrame of the matches alone: id, match_id, event, seed_id, score, threshold.

    Each Python process of Spark loads the model once. Ids are text.
    """

    def match_frames(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd

        for frame in frames:
            rows = [row | {"id": str(row["id"])} for row in sieve.matches(frame, text, id)]
            yield pd.DataFrame(rows, columns=MATCH_COLUMNS)

    name = id or ID
    if dict(df.dtypes).get(name, "").endswith("int"):
        # pandas would round whole numbers where one is missing
        df = df.withColumn(name, df[name].cast("string"))
    return df.mapInPandas(match_frames, SCHEMA)
