"""The objects that all endpoints of the desk share while it is open."""

from encoder.errors import InputError
from newsift.desk.changes import Changes
from newsift.desk.counting import EventCounts
from newsift.desk.export import Exports
from newsift.desk.file_stream import PostFiles
from newsift.desk.health import HealthMonitor
from newsift.desk.labelling import LabelQueues
from newsift.desk.mirrors import TopicMirrors
from newsift.desk.model import DeskModel
from newsift.desk.period import Period, StreamPeriod
from newsift.desk.scoring import EventScores, StreamMonitor
from newsift.desk.seed_editor import SeedEditor
from newsift.desk.threads import DaemonExecutor
from newsift.desk.training import Training
from newsift.operations.promises import MIN_POSTS_FOR_RATE
from worker.config import Config
from worker.seeds.profile import Profile

MAX_CALLS = 12


class Desk:
    def __init__(
        self, config: Config, read_only: bool = False, changes: Changes | None = None,
        files: PostFiles | None = None,
    ) -> None:  # fmt: skip
        """The posts of `files` are its stream; else those of the topic are."""
        self.config, self.read_only, self.files = config, read_only, files
        self.period: Period = files.period if files else StreamPeriod()
        period = self.period
        self.changes = changes = changes or Changes()
        self.executor = DaemonExecutor(MAX_CALLS)
        self.mirrors = mirrors = TopicMirrors(config, period, changes.notify)
        self.model = DeskModel(
            config, lambda: mirrors.control, lambda: changes.notify("events", "seeds")
        )
        self.matches = mirrors.matches
        self.stream = StreamMonitor(config, period)
        self.scores = EventScores(self.matches, self.model)
        self.queues = LabelQueues(config, mirrors, self.executor, period, files=files)
        self.editor = SeedEditor(config)
        self.training = Training(
            config, self.model, mirrors, self.editor, self.executor,
            lambda: changes.notify("events"),
        )  # fmt: skip
        self.counts = EventCounts(config, mirrors, period)
        self.exports = Exports(config)
        self.health = HealthMonitor(config, mirrors)

    @property
    def desk(self) -> "Desk":
        """Itself: a site shows this desk, or that of the project which is open."""
        return self

    def start(self) -> None:
        self.model.start()
        self.mirrors.start()

    def stop(self) -> None:
        """May be called without `start`."""
        self.mirrors.stop()
        self.queues.labels.stop()

    def pass_rate(self, profile: Profile | None) -> float | None:
        """The share that matches of the last hour's posts, or of the file's; None if unknown."""
        follower = self.mirrors.matches_follower
        if profile is None or follower.error or not follower.ready.is_set():
            return None
        count = self.matches.pass_count(profile.event, profile.version)
        posts = self.stream.processed()
        return None if count is None or posts < MIN_POSTS_FOR_RATE else count / posts

    @property
    def is_settled(self) -> bool:
        """Whether all posts of a file are matched with the present articles."""
        return self.period.is_settled(self.mirrors.control.offset)

    def require_settled(self) -> None:
        if not self.is_settled:
            raise InputError("the posts of the file are being matched again; wait until they are")
