"""The desk: what its pages share while it is open."""

from newsift.desk.board import Board
from newsift.desk.evidence import EvidenceCache, RecentMatches
from newsift.desk.export import Exports
from newsift.desk.feeds import Feeds
from newsift.desk.health import HealthMonitor
from newsift.desk.label_queues import LabelQueues
from newsift.desk.lessons import Lessons
from newsift.desk.mirrors import Following, TopicMirrors
from newsift.desk.model import Model
from newsift.desk.pulse import Pulse
from newsift.desk.scoring import Outside, Scores
from newsift.desk.seed_editor import SeedEditor
from newsift.desk.threads import DaemonExecutor
from newsift.operations.promises import ENOUGH
from worker.config import Config
from worker.seeds.profile import Profile

WORKERS = 8  # questions that are answered at once


class Desk:
    """A configuration, what is followed of its topics, and the hands that answer."""

    def __init__(self, config: Config, read_only: bool = False) -> None:
        self.config, self.read_only = config, read_only
        self.pulse = Pulse()
        self.mirrors = TopicMirrors(config, self.pulse.moved)
        self.model = Model(
            config, lambda: self.mirrors.control, lambda: self.pulse.moved("events", "seeds")
        )
        self.board = Board(config, self._events_with_seeds)
        self.of_matches = Following(
            config, config.topics.matches, self.board, lambda: self.pulse.moved("matches")
        )
        self.health = HealthMonitor(
            config, self._followed, lambda: self.mirrors.labels, lambda: self.pulse.moved("health")
        )
        self.exports = Exports(config)
        self.outside = Outside(config)
        self.scores = Scores(self.board, self.model)
        self.label_queues = LabelQueues(config, self.mirrors)
        self.evidence = EvidenceCache()
        self.recent = RecentMatches(config)
        self.seed_editor = SeedEditor(config)
        self.lessons = Lessons(
            config,
            self.model,
            self.mirrors,
            self.seed_editor.topic,
            lambda: self.pulse.moved("events"),
        )
        self.feeds = Feeds(config, lambda: self.pulse.moved("seeds"))
        self.hands = DaemonExecutor(WORKERS)

    def start(self) -> None:
        """Begin to follow the topics, and to load the model."""
        self.model.start()
        self.mirrors.start()
        self.of_matches.start()
        if not self.read_only:
            self.feeds.start()

    def stop(self) -> None:
        """Follow nothing any more; harmless if it never began."""
        self.mirrors.stop()
        self.of_matches.stop()
        self.health.stop()
        self.feeds.stop()
        self.hands.shutdown()
        self.label_queues.stop()

    def pass_rate(self, profile: Profile | None) -> float | None:
        """The share of the last hour's posts that match a profile; None where nobody knows."""
        follows = self.of_matches
        if profile is None or follows.away or not follows.ready.is_set():
            return None
        passed = self.board.passed(profile.event, profile.version)
        posts = self.outside.stream().last_hour
        return None if passed is None or posts < ENOUGH else passed / posts

    def _followed(self) -> dict[str, str]:
        """What is followed, and why it is not, if so."""
        topics = self.config.topics
        return {
            topics.matches: self.of_matches.away,
            topics.seeds: self.mirrors.of_seeds.away,
            # the first label makes its topic
            topics.labels: "" if self.mirrors.of_labels.missing else self.mirrors.of_labels.away,
            "the model": self.model.away,
        }

    def _events_with_seeds(self) -> set[str]:
        return {seed.event for seed in self.mirrors.control.seeds.values()}
