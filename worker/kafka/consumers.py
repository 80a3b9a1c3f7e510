"""aiokafka's consumers for long-running processes: in a group, or without one."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from worker.config import Config
from worker.kafka.aiokafka_repairs import Consumer, sticky_assignor
from worker.kafka.settings import aiokafka_settings, isolation_level

MAX_HEARTBEAT_S = 0.25  # A worker learns of a rebalance from the answer to a heartbeat.
MAX_REVOKE_S = 1.0  # All workers wait while one gives up its partitions.
MAX_REBALANCE_S = 10.0  # A worker that does not rejoin in time is left out.
MAX_METADATA_AGE_S = 5.0  # A new or larger topic is noticed within this time.
log = logging.getLogger("newsift.kafka")
MAX_FETCH_WAIT_MS = 100  # A new partition waits for the end of the fetch under way.


def group_consumer(config: Config) -> Consumer:
    """A member of kafka.group that commits on request."""
    kafka, size = config.kafka, config.stream.batch_bytes
    session = kafka.session_timeout_s
    return _consumer(
        config,
        group_id=kafka.group,
        group_instance_id=kafka.instance_id,
        partition_assignment_strategy=(sticky_assignor(),),
        metadata_max_age_ms=round(MAX_METADATA_AGE_S * 1000),
        session_timeout_ms=round(session * 1000),
        heartbeat_interval_ms=round(min(MAX_HEARTBEAT_S, session / 3) * 1000),
        rebalance_timeout_ms=round(MAX_REBALANCE_S * 1000),
        max_partition_fetch_bytes=size,
        fetch_max_bytes=2 * size,
        fetch_max_wait_ms=MAX_FETCH_WAIT_MS,
    )


def groupless_consumer(config: Config, **settings: Any) -> Consumer:
    """A consumer of topics that every worker reads as a whole."""
    return _consumer(config, group_id=None, **settings)


async def stop_within(work: Awaitable[object], seconds: float) -> None:
    """Await something during shutdown for at most this time; its errors are ignored.

    A client may even be cancelled by itself while its broker is away.
    """
    task = asyncio.ensure_future(work)
    await asyncio.wait({task}, timeout=seconds)
    if task.cancel():
        log.warning("leaving without waiting any longer")
    elif not task.cancelled() and (error := task.exception()):
        log.warning(
            "leaving although a client failed to stop (%s: %s)", type(error).__name__, error
        )


def _consumer(config: Config, **settings: Any) -> Consumer:
    common = aiokafka_settings(config) | {
        "isolation_level": isolation_level(config),
        "enable_auto_commit": False,
        "auto_offset_reset": "none",  # the error lets us count resets
    }
    return Consumer(check_crcs=False, **common, **settings)  # a whole batch is checked
