"""Hours of posts at a steady rate, with bursts, faults by a seed, and workers that come and go.

python -m tests.faults.soak --hours 2 [--seed N] [--rate 2000] [--kafka apache|embedded]

The workers skim and read by the model that ships. Workers 1 and 2 have instance ids. Worker 0 is
never killed, so that one life is long enough to tell whether memory grows. Each worker reaches the
broker through a network that can be cut. Each post has a number and repeats one of some texts; what
a text must come to is computed once for each set of seeds that the control topic states. Some posts
are deleted, and `newsift prune --follow` writes that. A desk is open, and asked for its pages.
"""
# ruff: noqa: T201 - a command that prints its result

import argparse
import itertools
import json
import logging
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import yaml
from kafka import TopicPartition
from kafka.errors import KafkaError

from bench.texts import SAMPLES, read_articles, read_posts
from tests.broker.clients import consumer, create, polled, write_keyed
from tests.broker.kafka import ApacheKafka, answers
from tests.broker.server import Server, opened
from tests.faults.checker import Tally
from tests.faults.expected_matches import Oracle, SeedWanted, seed_set
from tests.faults.load import PARTITIONS, Load, Texts
from tests.faults.memory import Memory
from tests.faults.messages import BAD_SEEDS
from tests.faults.network import Network
from tests.faults.process import Worker
from tests.newsift.desk.desk_topics import DeskProcess
from tests.worker.command_processes import Logged, environment
from worker.config import StreamConfig

MAX_WORKERS = 4
WITH_IDS = (1, 2)  # workers that have instance ids
TEXTS = 4096
UNREADABLE_STEP = 400  # one of so many texts stands in a message that is not JSON
SHARE = 0.002  # of the texts that match a seed
CONFIGS = {"retention_ms": "-1", "retention_bytes": f"{2**29}", "segment_bytes": f"{2**25}"}
STATE = {"cleanup_policy": "compact", "segment_bytes": f"{2**25}"}
TOPICS = {
    "posts": (PARTITIONS, CONFIGS), "matches": (PARTITIONS, CONFIGS),
    "rejected": (PARTITIONS, CONFIGS), "seeds": (1, STATE), "labels": (1, STATE),
}  # fmt: skip
GROUP = "soak"
STREAM = StreamConfig()
WINDOW = STREAM.in_flight * STREAM.batch_posts  # posts that one worker may have in flight
CALM_S = 60.0  # before the first fault
GAP_S = (5.0, 45.0)  # between faults
BURST, BURST_S = 10, 10.0
PATIENCE_S = 120.0
DRAIN_S = 1800.0
DESK_S = 5.0  # between two questions to the desk
PAGES = ("health", "events", "event?event={0}", "matches?event={0}", "scores?event={0}")
EXAMPLES = 20  # of what is wrong


class Soak:
    """The load, the workers, desk, prune and the checker, and what is measured of them."""

    def __init__(
        self, server: Server, network: Network, client: Any, folder: Path, rate: float
    ) -> None:
        self.server, self.network, self._client = server, network, client
        self._folder, self.rate = folder, rate
        posts, _ = read_posts(None, TEXTS)
        oracle = Oracle(folder, "default", posts, SHARE)
        seeds = [
            oracle.seed(name, f"{title}\n{text}") for name, (title, text) in zip(
                ("lasting-0", "lasting-1", "lasting-2", "changing", "changing"),
                read_articles(SAMPLES / "seeds", 5), strict=True)
        ]  # fmt: skip
        profile = oracle.profile(seeds[0], seeds[1].text)
        # Of the seed that changes, and of the seed whose event may have learned: what may be stated
        self.choices: list[list[SeedWanted]] = [[seeds[3], seeds[4]], [seeds[0], profile]]
        self.chosen, self._others = [0, 0], seeds[1:3]
        rows = {seed.version: oracle.matching(seed).tolist() for seed in [*seeds, profile]}
        texts = Texts(posts, frozenset(range(7, len(posts), UNREADABLE_STEP)), {
            seed_set(stated): [
                frozenset((s.id, s.version) for s in stated if rows[s.version][n])
                for n in range(len(posts))
            ] for stated in ([*self._others, *both] for both in itertools.product(*self.choices))
        }, oracle.digest)  # fmt: skip
        self.tally = Tally(texts)
        self.topics = {role: f"soak-{role}" for role in TOPICS}
        for role, (count, configs) in TOPICS.items():
            create(server.address, self.topics[role], count, **configs)
        self.control((seed.id.encode(), seed.value) for seed in self.stated)
        self.load = Load(server.address, self.topics["posts"], rate, texts)
        self._outputs = [
            TopicPartition(self.topics[role], number)
            for role, number in itertools.product(("matches", "rejected"), range(PARTITIONS))
        ]
        client.assign(self._outputs)
        self.size, self.workers, self.leaving = 2, dict[int, Worker](), list[Worker]()
        self._starts, self.began, self.calm_at = itertools.count(), time.monotonic(), 0.0
        self.allowed = 0  # posts that may come out twice
        self.tried, self.fired, self.crashes = Counter[str](), Counter[str](), list[str]()
        self.memory = Memory()
        self._ask_at, self.answers = 0.0, 0  # of the desk
        self._env = environment(NEWSIFT_CONFIG=str(self._config("commands")))
        self.desk = DeskProcess.start(folder, "newsift", "desk", "--port", "0", env=self._env)
        self.prune = self._start_prune()

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    @property
    def stated(self) -> list[SeedWanted]:
        pairs = zip(self.choices, self.chosen, strict=True)
        return [*self._others, *(choice[chosen] for choice, chosen in pairs)]

    def control(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        write_keyed(self.server.address, self.topics["seeds"], list(records))

    def note(self, what: str) -> None:
        print(f"{self.now:8.1f} s  {what}", flush=True)

    def may_repeat(self, workers: int) -> None:
        """So many workers may have lost what they had in flight."""
        self.allowed += round(workers * WINDOW * self.tally.due(TEXTS).mean())

    def wait(self, seconds: float) -> None:
        self.until(lambda: False, seconds)

    def until(self, holds: Callable[[], bool], patience: float = PATIENCE_S) -> bool:
        """Wait, and meanwhile read what comes out, and replace workers that have ended."""
        deadline = time.monotonic() + patience
        while not (result := holds()) and time.monotonic() < deadline:
            self._supervise()
            self._read()
            time.sleep(min(0.1, max(deadline - time.monotonic(), 0)))
        return result

    def _read(self) -> None:
        for record in polled(self._client, 0):
            if record.topic == self.topics["matches"]:
                row = json.loads(record.value)
                if "deleted_at" in row:
                    self.tally.deletion(row)
                else:
                    self.tally.match(row)
            else:
                self.tally.letter(record.value, dict(record.headers)["reason"].decode())

    def is_read(self) -> bool:
        ends = self._client.end_offsets(self._outputs)
        return all(self._client.position(place) >= end for place, end in ends.items())

    def is_ready(self) -> bool:
        """Whether as many workers run as should, and each has come to the posts."""
        workers = self.workers.values()
        return len(workers) == self.size and all("ready:" in each.output for each in workers)

    def _supervise(self) -> None:
        assert self.load.is_alive() or self.load.rate == 0 or not self.load.ident, "the load ended"
        if self.load.rate > self.rate and time.monotonic() > self.calm_at:
            self.load.rate = self.rate
        ended = {n: worker for n, worker in self.workers.items() if not worker.alive()}
        gone = [worker for worker in self.leaving if not worker.alive()]
        for worker in [*ended.values(), *gone]:
            self._look_at_end(worker)
        self.leaving = [worker for worker in self.leaving if worker not in gone]
        for n in [n for n in range(self.size) if n in ended or n not in self.workers]:
            folder = self._folder / f"worker-{n}.{next(self._starts)}"
            file = self._config(folder.name, f"worker-{n}" if n in WITH_IDS else None)
            self.workers[n] = Worker(folder, file, {"via": self.network.route}, fork=False)
        if self.prune.process.poll() is not None:
            self.note(f"prune ended: {(self.prune.output.splitlines() or [''])[-1]}")
            self.prune = self._start_prune()
        for name, process in (
            ("worker 0", self.workers[0].process), ("desk", self.desk.process),
            ("prune", self.prune.process),
        ):  # fmt: skip
            self.memory.sample(name, process.pid, self.now)
        if time.monotonic() > self._ask_at:
            self._ask_at = time.monotonic() + DESK_S
            threading.Thread(target=self._ask_desk, daemon=True).start()

    def _config(self, name: str, instance_id: str | None = None) -> Path:
        settings = {
            "kafka": {"bootstrap_servers": self.server.address, "group": GROUP,
                      "instance_id": instance_id},
            "topics": self.topics | {"partitions": PARTITIONS},
            "model": {"device": "cpu", "threads": 1}, "web": {"port": 0},
        }  # fmt: skip
        file = self._folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(settings), "utf-8")
        return file

    def _start_prune(self) -> Logged:
        return Logged.start(self._folder, "newsift", "prune", "--follow", env=self._env)

    def _ask_desk(self) -> None:
        for page in PAGES:
            with suppress(OSError):
                self.desk.call(page.format(self._others[0].id))
                self.answers += 1

    def _look_at_end(self, worker: Worker) -> None:
        """Of a worker that nobody killed: it may end by itself, and says why."""
        if code := worker.process.poll():
            self.may_repeat(1)
            last = (worker.output.splitlines() or [""])[-1]
            self.note(f"{worker.log.parent.name} ended with {code}: {last}")
            # SIGTERM ends a worker that has to leave before it can handle the signal.
            if (code < 0 and code != -signal.SIGTERM) or "Traceback" in worker.output:
                self.crashes.append(f"{worker.log.parent.name} ended with {code}: {last}")

    def committed(self) -> int | None:
        """None where the broker has no offset of some partition, as while it loads them."""
        places = [TopicPartition(self.topics["posts"], p) for p in range(PARTITIONS)]
        with suppress(KafkaError), consumer(self.server.address, group_id=GROUP) as client:
            offsets = [client.committed(place) for place in places]
            return None if None in offsets else sum(offsets)
        return None

    def cause(self, kind: str, dice: random.Random) -> None:
        self.tried[kind] += 1
        self.note(kind)
        try:
            self.fired[kind] += FAULTS[kind](self, dice)
        except (KafkaError, OSError) as error:
            self.note(f"{kind}: {error!r}")

    def close(self) -> None:
        for worker in [*self.workers.values(), *self.leaving]:
            worker.kill()
        self.load.stop()
        for command in (self.desk, self.prune):
            command.kill()


def kill_worker(soak: Soak, dice: random.Random) -> bool:
    soak.size = max(soak.size, 2)
    soak.until(soak.is_ready)
    worker = soak.workers.pop(dice.randrange(1, soak.size))
    worker.kill()
    soak.may_repeat(1)
    return worker.process.poll() == -signal.SIGKILL


def restart_broker(soak: Soak, dice: random.Random) -> bool:
    """Half the times without a last word, where it is a process of its own."""
    kafka = soak.server
    end = kafka.kill if isinstance(kafka, ApacheKafka) and dice.random() < 0.5 else kafka.stop
    end()
    gone = not answers(kafka.address)
    soak.wait(dice.uniform(1, 8))
    kafka.start()
    soak.may_repeat(len(soak.workers))
    return gone


def cut_network(soak: Soak, dice: random.Random) -> bool:
    cut, over = 0, soak.now + dice.uniform(2, 8)
    while soak.now < over:
        cut += soak.network.reset()
        soak.wait(0.3)
    soak.may_repeat(len(soak.workers))
    return cut > 0


def slow_network(soak: Soak, dice: random.Random) -> bool:
    carried = soak.network.carried
    soak.network.latency_s, soak.network.bytes_per_s = dice.uniform(0.05, 0.3), 2**18
    soak.wait(15)
    soak.network.latency_s = soak.network.bytes_per_s = 0
    soak.may_repeat(len(soak.workers))
    return soak.network.carried > carried


def replace_seed(soak: Soak, _dice: random.Random) -> bool:
    soak.chosen[0] ^= 1
    seed = soak.choices[0][soak.chosen[0]]
    soak.control([(seed.id.encode(), seed.value)])
    return in_force(soak)


def change_profile(soak: Soak, _dice: random.Random) -> bool:
    """It comes, and stands for its seed, or goes."""
    soak.chosen[1] ^= 1
    profile = soak.choices[1][1]
    soak.control([(profile.id.encode(), profile.value if soak.chosen[1] else None)])
    return in_force(soak)


def kill_prune(soak: Soak, _dice: random.Random) -> bool:
    soak.prune.kill()
    return soak.prune.process.poll() == -signal.SIGKILL


def rewrite_control(soak: Soak, dice: random.Random) -> bool:
    """Every seed anew, many times, among records that are no seeds."""
    bad = [(key, value) for _, key, value in BAD_SEEDS if len(value) < 10_000]
    for _ in range(20):
        seeds = dice.sample(soak.stated, len(soak.stated))
        soak.control([*((seed.id.encode(), seed.value) for seed in seeds), *bad])
    soak.control((key, None) for key, _ in bad)
    return in_force(soak)


def in_force(soak: Soak) -> bool:
    """Whether each worker comes to serve the seeds that are published."""

    def serves(worker: Worker) -> bool:
        with suppress(OSError, ValueError):
            return (worker.page("/seeds") or {}).get("seed_set") == seed_set(soak.stated)
        return False

    return soak.until(lambda: all(serves(each) for each in soak.workers.values() if each.alive()))


def scale(soak: Soak, dice: random.Random) -> bool:
    before = soak.size
    soak.size = dice.choice([n for n in range(1, MAX_WORKERS + 1) if n != before])
    for n in range(soak.size, before):
        if worker := soak.workers.pop(n, None):
            worker.signal(signal.SIGTERM)
            soak.leaving.append(worker)
    soak.may_repeat(max(before, soak.size))
    return True


def burst(soak: Soak, _dice: random.Random) -> bool:
    soak.load.rate, soak.calm_at = soak.rate * BURST, time.monotonic() + BURST_S
    return True


FAULTS: dict[str, Callable[[Soak, random.Random], bool]] = {
    "a worker killed": kill_worker,
    "the broker restarted or killed": restart_broker,
    "the network cut": cut_network,
    "the network slow": slow_network,
    "a seed replaced": replace_seed,
    "a profile comes or goes": change_profile,
    "prune killed": kill_prune,
    "the control topic rewritten": rewrite_control,
    "scaled": scale,
    "a burst": burst,
}


def schedule(seed: int, seconds: float) -> Iterator[tuple[float, str, random.Random]]:
    """Rounds in which each kind of fault comes once, in a random order: when, which, its dice."""
    dice, at = random.Random(seed), CALM_S
    while True:
        for kind in dice.sample(sorted(FAULTS), len(FAULTS)):
            at += dice.uniform(*GAP_S)
            if at > seconds:
                return
            yield at, kind, random.Random(dice.getrandbits(32))


def run(soak: Soak, seed: int, seconds: float) -> list[str]:
    """What is wrong."""
    soak.wait(1)
    soak.until(soak.is_ready)
    soak.began = time.monotonic()
    soak.load.start()
    for at, kind, dice in schedule(seed, seconds):
        soak.wait(max(at - soak.now, 0))
        soak.cause(kind, dice)
    soak.wait(max(seconds - soak.now, 0))
    soak.load.stop()
    soak.note("no more posts")
    stopped = soak.now
    drained = soak.until(lambda: soak.committed() == soak.load.messages, DRAIN_S)
    soak.note(f"drained after {soak.now - stopped:.0f} s")
    soak.until(soak.is_read)
    soak.until(lambda: soak.tally.is_pruned(soak.load.sent))
    verdict = soak.tally.verdict(soak.load.sent)
    soak.note(f"{soak.load.sent:,} posts, {verdict}, {soak.allowed:,} may be twice; {soak.fired}")
    soak.note(f"the desk answered {soak.answers:,} times; {soak.memory}")
    wrong = [f"{kind} never fired" for kind in soak.tried if not soak.fired[kind]]
    wrong += [] if drained else [f"{soak.committed()} committed of {soak.load.messages}"]
    wrong += [f"{verdict}"] if verdict.missing or verdict.wrong or verdict.unpruned else []
    wrong += ["the desk has ended"] if soak.desk.process.poll() is not None else []
    wrong += [f"{verdict.twice} twice"] if verdict.twice > soak.allowed else []
    return [*wrong, *soak.tally.wrong[:EXAMPLES], *soak.crashes, *soak.memory.complaints()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--rate", type=float, default=2000.0, help="posts a second")
    parser.add_argument("--kafka", choices=("apache", "embedded"), default="apache")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    logging.disable()  # what clients say of a broker that is away
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(opened(options.kafka, folder, auto_create=False))
        network = stack.enter_context(Network(server.address).open())
        client = stack.enter_context(consumer(server.address))
        soak = Soak(server, network, client, folder, options.rate)
        stack.callback(soak.close)
        complaints = run(soak, options.seed, options.hours * 3600)
    print(*complaints, sep="\n")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
