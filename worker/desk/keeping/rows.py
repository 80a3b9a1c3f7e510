"""The seeds as the pages list them, made again when the topic or the model has moved."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from worker.actions.seeds.rows import described
from worker.actions.seeds.states import SeedRow, judged_records, states
from worker.config import Config
from worker.desk.known import Control
from worker.desk.model import Model, Standing
from worker.posts.times import rfc3339
from worker.seeds.set import SeedSet


@dataclass(frozen=True, slots=True)
class Listed:
    """A list, and what it was made of."""

    version: int
    standing: Standing | None
    rows: list[SeedRow]


class SeedRows:
    """Every seed and profile as a row, with the threshold that holds where the model is there."""

    def __init__(self, config: Config, model: Model) -> None:
        self._config, self._model, self._lock = config, model, Lock()
        self._last: Listed | None = None

    def now(self, control: Control) -> list[SeedRow]:
        """The rows by event and id; each names the key of its record."""
        standing = self._model.standing() if self._model.now() else None
        with self._lock:
            last = self._last
            if last is None or (last.version, last.standing) != (control.version, standing):
                rows = self._rows(control, standing.seeds if standing else None)
                self._last = last = Listed(control.version, standing, rows)
        now = rfc3339(round(time.time() * 1000))
        return [row | {"state": "expired"} if _is_over(row, now) else row for row in last.rows]

    def _rows(self, control: Control, made: SeedSet | None) -> list[SeedRow]:
        judged = judged_records(control.latest, self._config)
        stands = states(judged.values(), self._config)
        rows = [
            described(each, control.latest[key]) | stands.get(key, {}) | {"key": key}
            for key, each in judged.items()
        ]
        if made is not None:
            cuts = zip((seed.id for seed in made.seeds), made.thresholds.tolist(), strict=True)
            rows = _told(rows, dict(cuts), {each.id: each.reason for each in made.refused})
        return sorted(rows, key=lambda row: (row.get("event") or "", row["id"]))


def _is_over(row: SeedRow, now: str) -> bool:
    """Whether a seed has ended since the list was made."""
    return row["state"] == "live" and bool(row["expires_at"]) and row["expires_at"] <= now


def _told(
    rows: list[SeedRow], cuts: Mapping[str, float], refused: Mapping[str, str]
) -> list[SeedRow]:
    """The rows with the thresholds that hold, and what the model refuses as refused."""
    return [
        row | {"state": "refused", "reason": refused[row["id"]]}
        if row["id"] in refused
        else row | {"cut": cuts.get(row["id"])}
        for row in rows
    ]
