"""The seeds on the control topic, as far as whoever adds more has to know them."""

from dataclasses import dataclass, field
from itertools import chain

from worker.config import Config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.seeds.profile import Compared, Profile, read_record
from worker.seeds.record import RefusedSeed, Seed
from worker.sources.links import link_identity


@dataclass(slots=True)
class KnownSeeds:
    """Which seeds there are, by id, by link and by version; it follows the topic, however large."""

    versions: dict[str, str] = field(default_factory=dict)  # by id
    by_link: dict[str, str] = field(default_factory=dict)
    by_version: dict[str, str] = field(default_factory=dict)
    _links: dict[str, str] = field(default_factory=dict)  # by id
    _ends: dict[str, int] = field(default_factory=dict)  # by id, of those that end
    _learned: dict[str, frozenset[str]] = field(default_factory=dict)  # ids, by profile
    _read: Offsets = field(default_factory=dict)

    def catch_up(self, cluster: TopicReader, config: Config) -> None:
        """Take over what was published since; a topic that was made again is read anew."""
        ends = cluster.ends(config.topics.seeds)
        if any(ends.get(part, 0) < offset for part, offset in self._read.items()):
            for each in (self.versions, self.by_link, self.by_version, self._links):
                each.clear()
            self._ends.clear()
            self._learned.clear()
            self._read = {}
        start = self._read or cluster.beginnings(config.topics.seeds)
        for record in chain.from_iterable(cluster.read(config.topics.seeds, start, ends)):
            self.take(record.key, read_record(record.key, record.value, config.limits))
        self._read = ends

    def ended(self, name: str, before: int) -> bool:
        """Whether a seed had ended by then, and no profile rests on it."""
        end = self._ends.get(name)
        if end is None or end > before:
            return False
        return not any(name in seeds for seeds in self._learned.values())

    def take(self, key: bytes | None, found: Compared | RefusedSeed | None) -> None:
        """Know the latest of a key: a seed, one that is refused and holds its id, or none."""
        name = (key or b"").decode("utf-8", "backslashreplace")
        for index, was in ((self.by_version, self.versions), (self.by_link, self._links)):
            if index.get(old := was.pop(name, "")) == name:
                del index[old]
        self._ends.pop(name, None)
        self._learned.pop(name, None)
        if isinstance(found, Profile):
            self._learned[name] = frozenset(found.seeds)
        elif found is not None:
            self.versions[name] = ""
        if not isinstance(found, Seed):
            return
        self.versions[name] = found.version
        if found.expires_at is not None:
            self._ends[name] = found.expires_at
        self.by_version[found.version] = name
        if found.url:
            self._links[name] = link_identity(found.url)
            self.by_link[self._links[name]] = name


def latest_of(cluster: TopicReader, topic: str, key: bytes) -> StoredMessage | None:
    """The latest record of one key, whatever else the topic holds."""
    found = None
    for record in chain.from_iterable(cluster.read(topic)):
        if record.key == key:
            found = record
    return found
