"""The profile that an event has, by the control topic as it is followed."""

from functools import lru_cache

from worker.actions.events.event import Values
from worker.config import Limits
from worker.seeds.profile import Profile, read_record
from worker.seeds.record import PREFIX

REMEMBERED = 64  # profiles that are read once


def profile_in(values: Values, event: str, limits: Limits) -> Profile | None:
    """An event's profile by its latest record, whatever its state."""
    key = (PREFIX + event).encode()
    value = values.get(key)
    return None if value is None else _read(key, value, limits)


@lru_cache(REMEMBERED)
def _read(key: bytes, value: bytes, limits: Limits) -> Profile | None:
    found = read_record(key, value, limits)
    return found if isinstance(found, Profile) else None
