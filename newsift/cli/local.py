"""A broker and a worker on this machine, for a desk without Kafka."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

from encoder.support.named import model_directory
from newsift.broker.server import running
from newsift.cli.processes import free_port, worker_process
from newsift.cli.services import ThreadService
from newsift.operations.messages import notify
from worker.config import Config, KafkaConfig, TopicsConfig
from worker.config.text import render_config
from worker.errors import RunError
from worker.kafka.topics import create_topics

CHECK_INTERVAL_S = 0.1


def with_whole_paths(config: Config) -> Config:
    """For a worker, which runs in another folder: relative paths would name nothing there."""
    model = replace(config.model, name=str(model_directory(config.model.name).resolve()))
    background = config.matching.background
    matching = replace(config.matching, background=background.resolve() if background else None)
    return replace(config, model=model, matching=matching)


def worker_settings(config: Config, folder: Path) -> dict[str, str]:
    """The environment of a worker with this configuration, which is written into the folder."""
    file = folder / "config.yaml"
    file.write_text(render_config(config), "utf-8")
    return {"NEWSIFT_CONFIG": str(file)}


def run_worker(config: Config, folder: Path, port: int, end: Event) -> None:
    """Until the event is set; a worker that was ready once is started again when it ends."""
    settings = worker_settings(config, folder)
    while not end.is_set():
        was_ready = False
        with worker_process(config.kafka.bootstrap_servers, folder, settings, port) as worker:
            try:
                while not end.wait(CHECK_INTERVAL_S):
                    was_ready = was_ready or worker.is_ready()
                    worker.check()
            except RunError as error:
                if not was_ready:  # another one would fail, too
                    raise
                notify(f"{error}; it is started again")


@contextmanager
def local_cluster(config: Config) -> Iterator[tuple[Config, ThreadService]]:
    """A broker in memory with all topics, and a worker to run on it."""
    with running() as broker, tempfile.TemporaryDirectory() as scratch:
        port = free_port()
        local = replace(
            with_whole_paths(config),
            kafka=KafkaConfig(bootstrap_servers=broker.address),
            topics=TopicsConfig(),
            posts=replace(config.posts, format="auto"),
            desk=replace(config.desk, workers=f"127.0.0.1:{port}"),
        )
        create_topics(local)
        yield local, ThreadService(partial(run_worker, local, Path(scratch), port))
