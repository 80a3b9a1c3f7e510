"""Seeds and profiles as rows of JSON, refused ones too."""

from collections.abc import Mapping

from worker.actions.keyed import Latest
from worker.actions.seeds.states import SeedRow, end_of, judged_records, states
from worker.config import Config
from worker.kafka.reading import StoredMessage
from worker.posts.times import rfc3339
from worker.seeds.profile import Compared, Profile
from worker.seeds.record import RefusedSeed, Seed

AutoThresholds = Mapping[str, float]  # by the ids of seeds and profiles


def described(found: Compared | RefusedSeed, record: StoredMessage, whole: bool = False) -> SeedRow:
    """A seed or a profile, or one that is refused, as a row of JSON."""
    published = {"published_at": rfc3339(max(record.timestamp, 0))}
    if isinstance(found, RefusedSeed):
        text = {"value": (record.value or b"").decode("utf-8", "backslashreplace")} if whole else {}
        return {"id": found.id, "state": "refused", "reason": found.reason, **published, **text}
    row = fields(found) | published
    if isinstance(found, Profile):
        learned = {"model": found.model, "promise": found.promise, "made": found.made}
        return row | {"seeds": sorted(found.seeds)} | (learned if whole else {})
    return row | {"text": found.text} if whole else row | {"characters": len(found.text)}


def rows_of(latest: Latest, config: Config) -> list[SeedRow]:
    """Every seed and profile as a row, those that are refused too, sorted by id."""
    judged = judged_records(latest, config)
    stands = states(judged.values(), config)
    rows = [described(each, latest[key]) | stands.get(key, {}) for key, each in judged.items()]
    return sorted(rows, key=lambda row: str(row["id"]))


def whole_row(latest: Latest, key: bytes, config: Config) -> SeedRow:
    """All about one of them."""
    judged = judged_records(latest, config)
    stands = states(judged.values(), config)
    return described(judged[key], latest[key], whole=True) | stands.get(key, {})


def fields(seed: Compared) -> SeedRow:
    """What is said of a seed everywhere."""
    end = end_of(seed.expires_at if isinstance(seed, Seed) else None)
    paused = isinstance(seed, Seed) and seed.paused
    return {
        "id": seed.id,
        "state": "paused" if paused else end["state"],
        "event": seed.event,
        "seed_version": seed.version,
        "threshold": seed.threshold,
        "expires_at": end["expires_at"],
        "title": seed.title,
        "url": seed.url,
    }
