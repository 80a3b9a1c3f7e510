"""Which profiles stand for their seeds: a plain function of the latest records and the model."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from worker.seeds.profile import Compared, Profile
from worker.seeds.record import RefusedSeed, Seed

Fit = Callable[[Profile], str]


@dataclass(frozen=True, slots=True, order=True)
class StaleProfile:
    """A profile that does not stand for its seeds now, and why: they serve."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What posts are compared with, sorted by id, and the profiles that are not among it."""

    compared: tuple[Compared, ...]
    ends: tuple[int | None, ...]  # when each expires: milliseconds, a profile with its last seed
    stale: tuple[StaleProfile, ...] = ()
    refused: tuple[RefusedSeed, ...] = ()


def standing(
    seeds: Mapping[str, Seed], profiles: Iterable[Profile], model: str, refusal: Fit
) -> Standing:
    """The profiles that are in force, and the seeds that none of them stands for.

    `seeds` are the valid ones, paused or not, by their ids; `refusal` says why a profile of this
    model cannot be compared with.
    """
    compared: dict[str, Compared] = {n: seed for n, seed in seeds.items() if not seed.paused}
    ends = {name: seed.expires_at for name, seed in seeds.items()}
    stale, refused = [], []
    for profile in profiles:
        if why := stale_because(profile, seeds, model):
            stale.append(StaleProfile(profile.id, why))
        elif why := refusal(profile):
            refused.append(RefusedSeed(profile.id, why))
        else:
            for name in profile.seeds:
                del compared[name]
            compared[profile.id] = profile
            ends[profile.id] = last_of(ends[name] for name in profile.seeds)
    ids = sorted(compared)
    rows = tuple(compared[name] for name in ids), tuple(ends[name] for name in ids)
    return Standing(*rows, tuple(sorted(stale)), tuple(sorted(refused)))


def unfit(profile: Profile, dim: int, mix: float) -> str:
    """Why a profile cannot be one of a model of this width and mix; empty if it can."""
    axes = len(profile.vector.dense)
    if axes != dim:
        return f"vectors: {axes} axes, the model has {dim}; learn the event anew"
    if len(profile.vector.slots) and not mix:
        return "vectors: has words, which the model does not read; learn the event anew"
    return ""


def last_of(ends: Iterable[int | None]) -> int | None:
    """The last of some times; None where one never comes."""
    known = list(ends)
    return None if None in known else max(end for end in known if end is not None)


def stale_because(profile: Profile, seeds: Mapping[str, Seed], model: str) -> str:
    """Why a profile does not stand for the seeds that it names; empty if it does."""
    if profile.model != model:
        return f"model: learned with {profile.model[:12]!r}, the worker's is {model[:12]!r}"
    for name, version in sorted(profile.seeds.items()):
        shown, seed = repr(name[:60]), seeds.get(name)
        if seed is None:
            return f"seeds: {shown} stands no more"
        if seed.version != version:
            return f"seeds: {shown} has changed since"
        if seed.event != profile.event:
            return f"seeds: {shown} is of another event now"
        if seed.paused:
            return f"seeds: {shown} is paused"
    return ""
