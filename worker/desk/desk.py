"""The desk: what its pages share while it is open."""

from worker.actions.events.promising import ENOUGH
from worker.config import Config
from worker.desk.board import Board
from worker.desk.export.exports import Exports
from worker.desk.following import Following
from worker.desk.hands import Hands
from worker.desk.health.watching import Health
from worker.desk.judging.judging import Judging
from worker.desk.judging.profiles import profile_in
from worker.desk.judging.recent import Recent
from worker.desk.keeping.changes import Keeping
from worker.desk.keeping.feeds import Feeds
from worker.desk.keeping.rows import SeedRows
from worker.desk.known import Known
from worker.desk.lessons import Lessons
from worker.desk.model import Model
from worker.desk.scoring.outside import Outside
from worker.desk.server.pulse import Pulse
from worker.seeds.profile import Profile

WORKERS = 8  # questions that are answered at once


class Desk:
    """A configuration, what is followed of its topics, and the hands that answer."""

    def __init__(self, config: Config, read_only: bool = False) -> None:
        self.config, self.read_only = config, read_only
        self.pulse = Pulse()
        self.known = Known(config, self.pulse.moved)
        self.model = Model(
            config, lambda: self.known.control, lambda: self.pulse.moved("events", "seeds")
        )
        self.board = Board(config, self._events_with_seeds)
        self.of_matches = Following(
            config, config.topics.matches, self.board, lambda: self.pulse.moved("matches")
        )
        self.health = Health(
            config, self._followed, lambda: self.known.labels, lambda: self.pulse.moved("health")
        )
        self.exports = Exports()
        self.outside = Outside(config)
        self.judging = Judging(config, self._profile_version)
        self.recent = Recent(config)
        self.keeping = Keeping(config)
        self.lessons = Lessons(
            config, self.model.wait, self.keeping.topic, lambda: self.pulse.moved("events")
        )
        self.rows = SeedRows(config, self.model)
        self.feeds = Feeds(config, lambda: self.pulse.moved("seeds"))
        self.hands = Hands(WORKERS)

    def start(self) -> None:
        """Begin to follow the topics, and to load the model."""
        self.model.start()
        self.known.start()
        self.of_matches.start()
        if not self.read_only:
            self.feeds.start()

    def stop(self) -> None:
        """Follow nothing any more; harmless if it never began."""
        self.known.stop()
        self.of_matches.stop()
        self.health.stop()
        self.feeds.stop()
        self.hands.shutdown()
        self.judging.stop()

    def pass_rate(self, profile: Profile | None) -> float | None:
        """The share of the last hour's posts that match a profile; None where nobody knows."""
        follows = self.of_matches
        if profile is None or follows.away or not follows.ready.is_set():
            return None
        passed = self.board.passed(profile.event, profile.version)
        posts = self.outside.stream().last_hour
        return None if passed is None or posts < ENOUGH else passed / posts

    def _profile_version(self, event: str) -> str | None:
        """Which profile an event has now, empty without one; None before that is known."""
        if not self.known.of_seeds.ready.is_set():
            return None
        profile = profile_in(self.known.control.values, event, self.config.limits)
        return profile.version if profile else ""

    def _followed(self) -> dict[str, str]:
        """What is followed, and why it is not, if so."""
        topics = self.config.topics
        return {
            topics.matches: self.of_matches.away,
            topics.seeds: self.known.of_seeds.away,
            # the first label makes its topic
            topics.labels: "" if self.known.of_labels.missing else self.known.of_labels.away,
            "the model": self.model.away,
        }

    def _events_with_seeds(self) -> set[str]:
        book = self.known.control.book
        return {seed.event for seed in (*book.seeds, *book.paused)}
