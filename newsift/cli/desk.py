"""`newsift desk`: the page in the browser, served until somebody ends it."""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event

import click

from encoder.errors import InputError, NewsiftError
from encoder.support.memory import return_large_blocks
from newsift.cli.local import local_cluster
from newsift.cli.options import PATH, file_options, kafka_options, option_group
from newsift.cli.services import Service, ThreadService, run_services, run_until
from newsift.desk.changes import Changes
from newsift.desk.file_stream import FileStream, PostFiles
from newsift.desk.guard import MIN_TOKEN_CHARS
from newsift.desk.project import DESCRIPTION_FILE, Project, locked, open_project
from newsift.desk.projects import Projects
from newsift.desk.session import Desk
from newsift.desk.site import DeskSite, announce
from newsift.desk.views import ENDPOINTS, PROJECT_ENDPOINTS
from newsift.files.posts import FileMessages, open_inputs
from newsift.files.read import DASH, find_files
from newsift.files.tables import FileOptions
from newsift.operations.messages import notify
from newsift.operations.seed_drafts import SeedDraft, parse_seed, read_seed_files, require_articles
from newsift.operations.seed_topic import seed_topic
from worker import log
from worker.config import Config, WebConfig
from worker.config.secret import Secret
from worker.errors import BrokerError, ConfigError
from worker.kafka.reading import connected
from worker.metrics.visits import is_loopback

TOKEN_BYTES = 32
SAVE_INTERVAL_S = 1.0
READY_WAIT_S = 5.0  # A page that is opened earlier says that nothing is read yet.


@dataclass(frozen=True, slots=True)
class Access:
    port: int | None = None
    read_only: bool = False
    no_token: bool = False


@dataclass(frozen=True, slots=True)
class DeskFiles:
    """What a desk without Kafka works on."""

    file: tuple[Path, ...] = ()
    more: tuple[Path, ...] = ()
    seeds: tuple[Path, ...] = ()
    force: bool = False
    folder: Path | None = None
    projects: Path | None = None
    file_options: FileOptions = field(default_factory=FileOptions)

    @property
    def files(self) -> tuple[Path, ...]:
        return self.file + self.more


@click.command()
@option_group(
    "access",
    Access,
    click.option("--port", type=click.IntRange(0, 65_535), metavar="PORT",
                 help="Where it is served; 6067, or the next free one."),
    click.option("--read-only", is_flag=True, help="Show everything; refuse every change."),
    click.option("--no-token", is_flag=True,
                 help="Require no token: every user of this machine may then use the desk."),
)  # fmt: skip
@file_options
@option_group(
    "files",
    DeskFiles,
    click.option("--file", type=PATH, multiple=True, metavar="FILE…",
                 help="Take the posts of these files, without Kafka; may be repeated."),
    click.argument("more", nargs=-1, type=PATH, metavar=""),
    click.option("--seeds", type=PATH, multiple=True, metavar="PATH",
                 help="With --file: a seed article, or a folder of them; may be repeated."),
    click.option("--force", is_flag=True,
                 help="Take what looks like no article, has < 40 words or another language."),
    click.option("--project", "folder", type=PATH, metavar="DIR",
                 help="Keep articles, profiles and labels in this folder; without --file go on "
                 "with its files."),
    click.option("--projects", type=PATH, metavar="DIR",
                 help="Show all projects in this folder; a file that is dropped on the page "
                 "begins one."),
)  # fmt: skip
@kafka_options
@click.pass_context
def desk(ctx: click.Context, access: Access, files: DeskFiles, config: Config) -> None:
    """Serve the desk: a page in the browser to watch and judge matches, and to edit seeds.

    By default only this machine can reach it, through the printed address, which holds a token made
    at this start. With desk.token, the desk asks for that token instead and prints none; then
    desk.host may be another address.

    With --file it needs no Kafka: it runs a broker in memory and a worker itself. The posts of FILE
    are the stream, and all are matched again after each change of the articles. Formats are those
    of `newsift filter`. With --project, articles, profiles and labels are saved within a second,
    and the next desk on that folder continues with them.

    With --projects the page lists the projects in DIR: drop a file on it, choose its columns, name
    the project. One is open at a time.
    """
    check_access(config, access.no_token)
    if not files.files and files.folder is None:
        if replace(files, projects=None) != DeskFiles():
            raise click.UsageError("--seeds and the options of files need --file or --project")
        if files.projects is None:
            require_access(config)
            serve(config, access, Desk(config, access.read_only))
            return
    if ctx.params["kafka"] is not None:
        raise click.UsageError("--kafka: files and projects have a broker of their own")
    if files.projects is not None:
        if files != DeskFiles(projects=files.projects) or access.read_only:
            raise click.UsageError("--projects: goes with no file, --project or --read-only")
        serve_projects(config, access, files.projects)
        return
    folder = files.folder
    if folder is not None and not (files.files or folder.exists()):
        raise InputError(f"--project: {folder} does not exist; give --file FILE to begin it")
    with open_project(folder) as project:
        sources, options = _sources(project, files.files, files.file_options)
        inputs = _open_files(sources, options, config)
        drafts = read_seed_files(files.seeds)
        if not files.force:
            require_articles(drafts, config.model.name)
        project.describe(sources, options)
        if folder is None:
            notify("articles and labels are lost when this desk ends; --project DIR saves them")
        with file_desk(config, project, inputs, access.read_only) as (local_desk, services):
            _publish(local_desk.config, drafts)
            serve(local_desk.config, access, local_desk, services)


def serve_projects(config: Config, access: Access, folder: Path) -> None:
    """All projects in the folder, one open at a time."""

    def run(folder: Path, end: Event, on_open: Callable[[Desk], None]) -> None:
        with open_project(folder) as project:
            inputs = _open_files(project.files, project.description.options, config)
            with file_desk(config, project, inputs, changes=projects.changes) as (desk, services):
                desk.start()
                desk.mirrors.matches_follower.ready.wait(READY_WAIT_S)
                on_open(desk)
                try:
                    asyncio.run(run_until(end, services))
                finally:
                    desk.stop()

    projects = Projects(folder, config.limits, run)
    if (folder / DESCRIPTION_FILE).exists():
        raise InputError(f"--projects: {folder} is a project itself; give --project {folder}")
    with locked(folder, "--projects"):
        serve(config, access, projects)


@contextmanager
def file_desk(
    config: Config, project: Project, inputs: Sequence[FileMessages], read_only: bool = False,
    changes: Changes | None = None,
) -> Iterator[tuple[Desk, Sequence[Service]]]:  # fmt: skip
    """A desk of files, with a broker, and a worker among its services; saved at the end."""
    with local_cluster(config) as (local_config, worker):
        project.restore(local_config)
        files = PostFiles(inputs)
        desk = Desk(local_config, read_only, changes, files)
        stream = FileStream(
            local_config,
            files,
            lambda: desk.mirrors.control,
            lambda: desk.changes.notify("health", "events", "matches", "labels"),
            lambda: desk.model.seed_set_digest,
        )
        saving = partial(save_project, project, desk)
        try:
            yield desk, (worker, ThreadService(stream.run), ThreadService(saving))
        finally:
            project.save_topics(local_config)


def require_access(config: Config) -> None:
    """Raises if the broker refuses this user, or is not trusted; one that is away may come back."""
    with suppress(BrokerError), connected(config):
        pass


def check_access(config: Config, no_token: bool) -> None:
    settings = config.desk
    if settings.token is None and not is_loopback(settings.host):
        raise ConfigError(
            f"desk.host: {settings.host} is open to others; set NEWSIFT_DESK__TOKEN or "
            "desk.token_file"
        )
    if settings.token is not None and no_token:
        raise ConfigError("--no-token: but desk.token is set; leave one of the two out")
    if settings.token is not None and len(settings.token.reveal()) < MIN_TOKEN_CHARS:
        raise ConfigError(
            f"desk.token: is easily guessed; give {MIN_TOKEN_CHARS} characters or more"
        )


def serve(
    config: Config, access: Access, shown: Desk | Projects, services: Sequence[Service] = (),
    on_open: Callable[[str], None] = announce,
) -> None:  # fmt: skip
    settings = config.desk
    return_large_blocks()
    log.configure_logging(config.log, None)
    new_token = Secret(secrets.token_urlsafe(TOKEN_BYTES))
    token = None if access.no_token else settings.token or new_token
    listen, is_printed = WebConfig(settings.host, access.port), settings.token is None
    endpoints = ENDPOINTS + PROJECT_ENDPOINTS if isinstance(shown, Projects) else ENDPOINTS
    site = DeskSite(shown, listen, token, endpoints, print_token=is_printed, on_open=on_open)
    failure = asyncio.run(run_services([site, *services]))
    if failure is not None:
        raise failure


def _sources(
    project: Project, files: Sequence[Path], options: FileOptions
) -> tuple[list[Path], FileOptions]:
    """The files of posts and the options to read them; without files, those of the project."""
    if not files:
        if not project.files:
            raise InputError("--project: this folder has no file of posts yet; give --file FILE")
        return project.files, project.description.options
    sources = find_files(files)
    if DASH in sources:
        raise InputError("--file -: the posts are read again when articles change; give a file")
    return list(sources), options


def _open_files(
    sources: Sequence[Path], options: FileOptions, config: Config
) -> list[FileMessages]:
    """Raises InputError for files without any row."""
    inputs = open_inputs(sources, options, config.limits, notify)
    if inputs and all(each.is_empty for each in inputs):
        names = ", ".join(each.name for each in inputs)
        raise InputError(f"{names}: holds no row with a post; give another file")
    return inputs


def _publish(config: Config, drafts: Sequence[SeedDraft]) -> None:
    """Publish articles. Those that the project already has keep their changes."""
    with seed_topic(config) as topic:
        versions = {(seed.id, seed.version) for seed in topic.state().seeds.values()}
        pairs = [(draft, parse_seed(draft, config)) for draft in drafts]
        new = {d.key: d.value for d, seed in pairs if (seed.id, seed.version) not in versions}
        topic.publish(new)


def save_project(project: Project, desk: Desk, end: Event) -> None:
    """Save every second, and try again after an error."""
    is_unsaved = False
    while not end.wait(SAVE_INTERVAL_S):
        try:
            project.save(desk.mirrors.control, desk.mirrors.labels)
        except (OSError, NewsiftError) as error:
            if not is_unsaved:
                notify(f"--project: not saved, and tried again every second: {error}")
            is_unsaved = True
        else:
            if is_unsaved:
                notify("--project: saved again")
            is_unsaved = False
