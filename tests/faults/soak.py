"""Hours of posts at a steady rate, with bursts, faults by a seed, and workers that come and go.

python -m tests.faults.soak --hours 2 [--seed N] [--rate 5000] [--kafka apache|embedded] [--out DIR]

Workers 1 and 2 have instance ids. Worker 0 is never killed, so that one life is long enough to
tell whether memory grows. Each worker reaches the broker through a network that can be cut, and
the desk is open all the time: matches are labelled there, and an event learns. Of Apache Kafka the
disk for dead letters can be full. DIR gets samples.jsonl, result.json, table.md, soak.svg and logs.
"""
# ruff: noqa: T201 - a command that prints a table

import argparse
import itertools
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import yaml
from kafka import TopicPartition
from kafka.errors import KafkaError

from bench.texts import SAMPLES, read_articles, read_posts
from tests.broker.clients import admin, consumer, create, read_to_end, write_keyed
from tests.broker.kafka import ApacheKafka, answers, free_ports
from tests.broker.server import Server, opened
from tests.faults import letter_disk
from tests.faults.expected import Oracle, ProfileWanted, SeedWanted, seed_set
from tests.faults.letter_disk import LetterDisk
from tests.faults.messages import BAD_SEEDS
from tests.faults.network import Network
from tests.faults.process import Worker, resident
from tests.faults.rolling import OFFSETS, Load, post_templates
from tests.faults.soak_report import curves, growth, read, report
from tests.faults.tally import Met, Reader, Tally, Texts
from tests.newsift.desk.place import DeskProcess
from worker.config import StreamConfig

MAX_WORKERS = 4
WITH_IDS = (1, 2)  # workers that have instance ids
PARTITIONS = 8
TEXTS = 4096
UNREADABLE_STEP = 400  # One of so many texts stands in a message that is not JSON.
SHARE = 0.03  # of the texts that match a seed
SEGMENT, RETAINED = 2**25, 2**29  # bytes of a partition
CONFIGS = {"retention_ms": "-1", "retention_bytes": f"{RETAINED}", "segment_bytes": f"{SEGMENT}"}
STATE = {"cleanup_policy": "compact", "segment_bytes": f"{SEGMENT}"}
TOPICS = {
    "posts": (PARTITIONS, CONFIGS), "matches": (PARTITIONS, CONFIGS),
    "seeds": (1, STATE), "labels": (1, STATE),
}  # fmt: skip
GROUP = "soak"
STREAM = StreamConfig()
WINDOW = STREAM.in_flight * STREAM.batch_posts  # posts that one worker may have in flight
CALM_S = 60.0  # before the first fault
GAP_S = (5.0, 45.0)  # between faults
SAMPLE_S = 10.0
BURST, BURST_S = 10, 10.0
JUMPS_S = (1800, 0, -86_400, 0)  # Kafka refuses what is more than an hour ahead
FULL_DISK_S = (20.0, 60.0)
FORGET_SHARE = 0.5  # of the times that an event has learned something
PATIENCE_S = 120.0
DESK_S = 20.0
DRAIN_S = 1800.0
JUDGE, LABELS = "soak", 12  # new labels of each lesson
PAGES = ("api/events", "api/health", "api/seeds", "api/dead-letters", "api/matches?event=changing")


class Event(NamedTuple):
    at: float  # seconds since the start
    kind: str
    dice: int


def schedule(seed: int, seconds: float, kinds: Iterable[str]) -> Iterator[Event]:
    """Rounds in which each kind of fault comes once, in a random order."""
    kinds = sorted(kinds)
    dice, at = random.Random(seed), CALM_S
    while True:
        for kind in dice.sample(kinds, len(kinds)):
            at += dice.uniform(*GAP_S)
            if at > seconds:
                return
            yield Event(at, kind, dice.getrandbits(32))


class Seeds:
    """What the control topic states: a seed in two versions, what an event has learned, or not."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        texts = [f"{title}\n{text}" for title, text in read_articles(SAMPLES / "seeds", 5)]
        self.lasting = [oracle.seed(f"lasting-{n}", text) for n, text in enumerate(texts[:3])]
        self.versions = [oracle.seed("changing", text) for text in texts[3:]]
        self.version = 0
        self.profile: ProfileWanted | None = None

    @property
    def event(self) -> str:
        """The one that learns."""
        return self.lasting[0].id

    @property
    def threshold(self) -> float:
        """Of what it learns."""
        return self.lasting[0].threshold

    def set_profile(self, record: bytes | None) -> None:
        """The profile as the control topic has it, or none."""
        self.profile = self._oracle.parse_profile(record, self.threshold) if record else None

    def now(self) -> list[SeedWanted]:
        return self._stated(self.version)

    def _stated(self, version: int) -> list[SeedWanted]:
        return [self.profile or self.lasting[0], *self.lasting[1:], self.versions[version]]

    def expected(self) -> dict[str, list[Met]]:
        """What each text meets, with either version, by seed_set."""
        matches = {}
        for version in range(len(self.versions)):
            seeds = self._stated(version)
            rows = zip(*(self._oracle.matching(seed).tolist() for seed in seeds), strict=True)
            matches[seed_set(seeds)] = [
                frozenset((s.id, s.version) for s, met in zip(seeds, row, strict=True) if met)
                for row in rows
            ]
        return matches


class Soak:
    """The load, the workers, the desk and the checker, and what is measured of them."""

    def __init__(
        self, server: Server, network: Network, folder: Path, samples: TextIO, rate: float
    ) -> None:
        self.server, self.network, self._folder, self._samples = server, network, folder, samples
        posts, _ = read_posts(None, TEXTS)
        oracle = Oracle(folder, "default", posts, SHARE)
        self.seeds = Seeds(oracle)
        unreadable = frozenset(range(7, len(posts), UNREADABLE_STEP))
        texts = Texts(posts, unreadable, {**self.seeds.expected()}, oracle.digest)
        self.tally, self._share = Tally(texts), float(texts.must.mean())
        self.topics = {role: f"soak-{role}" for role in (*TOPICS, "rejected")}
        self.disk: LetterDisk | None = None
        if isinstance(server, ApacheKafka):
            self.disk = LetterDisk(server, self.topics["rejected"])
            sizes = {self.topics[role]: count for role, (count, _) in TOPICS.items()}
            self.disk.place({OFFSETS.topic: 1, **sizes})
        for role, (count, configs) in TOPICS.items():
            create(server.address, self.topics[role], count, **configs)
        self.create_letters()
        self.publish(*self.seeds.now())
        messages = [
            template.removesuffix(b"}") if row in unreadable else template
            for row, template in enumerate(post_templates(posts))
        ]
        self.load = Load(server.address, self.topics["posts"], PARTITIONS, rate, messages)
        self.rate, self.calm_at = rate, 0.0  # when a burst ends
        self.reader = Reader(
            server.address, self.topics["matches"], self.topics["rejected"], PARTITIONS, self.tally
        )
        self._ports = free_ports(MAX_WORKERS)
        self.size, self.workers, self.leaving = 2, dict[int, Worker](), list[Worker]()
        self._starts = itertools.count()
        env = os.environ | {"NEWSIFT_CONFIG": str(self._settings(0)), "XDG_STATE_HOME": str(folder)}
        self._desk = DeskProcess.start(folder, "newsift", "desk", "--port", "0", env=env)
        self.began = self._sampled = time.monotonic()
        self.away, self.allowed = False, 0.0  # the broker; posts that may come out twice
        self.tried, self.fired = Counter[str](), Counter[str]()
        self.faults, self.surprises = list[tuple[float, str]](), list[str]()
        self.crashes = list[str]()  # the surprises that are not an orderly end

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def _settings(self, n: int) -> Path:
        ports = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        settings = {
            "kafka": {
                "bootstrap_servers": self.server.address, "group": GROUP,
                "instance_id": f"worker-{n}" if n in WITH_IDS else None,
            },
            "topics": self.topics | {"partitions": PARTITIONS},
            "model": {"device": "cpu", "threads": 1},
            "matching": {"threshold": self.seeds.threshold},
            "web": {"port": self._ports[n]},
            "desk": {"workers": ports},
        }  # fmt: skip
        file = self._folder / f"worker-{n}.yaml"
        file.write_text(yaml.safe_dump(settings), "utf-8")
        return file

    def create_letters(self) -> None:
        topic, configs = self.topics["rejected"], CONFIGS
        if self.disk is not None:
            self.disk.place({topic: PARTITIONS})
            configs = configs | letter_disk.CONFIGS
        create(self.server.address, topic, PARTITIONS, **configs)

    def ask_desk(self, path: str, **action: object) -> Any:
        """The desk's answer, to an action if there is one."""
        body = json.dumps(action | {"by": JUDGE}).encode() if action else None
        headers = self._desk.login | {"Content-Type": "application/json"}
        try:
            with urlopen(Request(self._desk.url + path, body, headers), timeout=DESK_S) as answer:
                return json.load(answer)["answer"]
        except HTTPError as error:
            raise OSError(f"{path}: {error.read().decode()}") from None

    def read_profile(self) -> None:
        """What the event has learned by now, and what each text has to come to with it."""
        key = f"profile|{self.seeds.event}".encode()
        records = read_to_end(self.server.address, self.topics["seeds"])
        self.seeds.set_profile(
            next((row.value for row in reversed(records) if row.key == key), None)
        )
        self.tally.expect(self.seeds.expected())

    def publish(self, *seeds: SeedWanted) -> None:
        self.control(*((seed.id.encode(), seed.value) for seed in seeds))

    def control(self, *records: tuple[bytes | None, bytes | None]) -> None:
        write_keyed(self.server.address, self.topics["seeds"], records)

    def note(self, what: str) -> None:
        self.faults.append((round(self.now, 1), what))
        print(f"{self.now:8.1f} s  {what}", flush=True)

    def may_repeat(self, workers: int) -> None:
        """So many workers may have lost what they had in flight."""
        self.allowed += workers * WINDOW * self._share

    def wait(self, seconds: float) -> None:
        self.until(lambda: False, seconds)

    def until(self, holds: Callable[[], bool], patience: float = PATIENCE_S) -> bool:
        """Wait, and meanwhile replace workers that have ended, and take samples."""
        deadline = time.monotonic() + patience
        while not (result := holds()) and time.monotonic() < deadline:
            self._supervise()
            if time.monotonic() - self._sampled >= SAMPLE_S:
                self._sampled = time.monotonic()
                with suppress(OSError, IndexError):  # a worker has just ended
                    self._sample()
            time.sleep(min(0.5, max(deadline - time.monotonic(), 0)))
        return result

    def is_ready(self) -> bool:
        """Whether as many workers run as should, and each has come to the posts."""
        workers = self.workers.values()
        return len(workers) == self.size and all("ready:" in each.output for each in workers)

    def _supervise(self) -> None:
        assert self.load.is_alive() or self.load.rate == 0 or not self.load.ident, "the load ended"
        assert self.reader.is_alive() or not self.reader.ident, "the checker ended"
        if self.load.rate > self.rate and time.monotonic() > self.calm_at:
            self.load.rate = self.rate
        for worker in [each for each in self.leaving if not each.alive()]:
            self.leaving.remove(worker)
            self._look_at_end(worker)
        for n in range(self.size):
            if n in self.workers and not self.workers[n].alive():
                self._look_at_end(self.workers.pop(n))
            if n not in self.workers:
                folder = self._folder / f"worker-{n}.{next(self._starts)}"
                fault = {"via": self.network.route, "jumps_s": JUMPS_S}
                self.workers[n] = Worker(folder, self._settings(n), fault, fork=False)

    def _look_at_end(self, worker: Worker) -> None:
        """Of a worker that nobody killed: it may end by itself, and says why."""
        if code := worker.process.poll():
            self.may_repeat(1)
            last = (worker.output.splitlines() or [""])[-1]
            self.surprises.append(f"{worker.log.parent.name} ended with {code}: {last}")
            self.note(self.surprises[-1])
            # SIGTERM ends a worker that has to leave before it can handle the signal.
            if (code < 0 and code != -signal.SIGTERM) or "Traceback" in worker.output:
                self.crashes.append(self.surprises[-1])

    def committed(self) -> int | None:
        """None where the broker has no offset of some partition, as while it loads them."""
        places = [TopicPartition(self.topics["posts"], p) for p in range(PARTITIONS)]
        with suppress(KafkaError):
            if not self.away:
                with consumer(self.server.address, group_id=GROUP) as client:
                    offsets = [client.committed(place) for place in places]
                    return None if None in offsets else sum(offsets)
        return None

    def _sample(self) -> None:
        row = {
            "at": round(self.now, 1), "sent": self.load.sent, "committed": self.committed(),
            "matches": self.tally.matches, "letters": self.tally.letters,
            "pause_s": round(self.reader.pause(), 2), "load": os.getloadavg()[0],
            "workers": {
                worker.log.parent.name: {
                    "mb": worker.memory() / 1e6, "assigned": worker.assignments(),
                }
                for worker in self.workers.values() if worker.alive()
            },
            "desk_mb": resident(self._desk.process.pid) / 1e6, "faults": self.faults,
        }  # fmt: skip
        self._samples.write(json.dumps(row) + "\n")
        self._samples.flush()
        self.faults = []
        for page in () if self.away else PAGES:
            with suppress(OSError):
                self.ask_desk(page)
                self.fired["the desk answered"] += 1

    def cause(self, event: Event) -> None:
        self.tried[event.kind] += 1
        self.note(event.kind)
        try:
            self.fired[event.kind] += FAULTS[event.kind](self, random.Random(event.dice))
        except (KafkaError, OSError) as error:
            self.note(f"{event.kind}: {error!r}")

    def close(self) -> None:
        for worker in [*self.workers.values(), *self.leaving]:
            worker.kill()
        for log in self._folder.glob("worker-*/log"):
            shutil.copy(log, Path(self._samples.name).with_name(f"{log.parent.name}.log"))
        self._desk.kill()
        self.load.rate = 0
        self.load.stop()


def kill_worker(soak: Soak, dice: random.Random) -> bool:
    soak.size = max(soak.size, 2)
    soak.until(soak.is_ready)
    worker = soak.workers.pop(dice.randrange(1, soak.size))
    worker.kill()
    soak.may_repeat(1)
    return worker.process.poll() == -signal.SIGKILL


def restart_broker(soak: Soak, dice: random.Random, end: Callable[[], None] | None = None) -> bool:
    soak.away = True
    (end or soak.server.stop)()
    gone = not answers(soak.server.address)
    soak.wait(dice.uniform(1, 8))
    if soak.disk is not None:
        soak.disk.delete_orphans()
    soak.server.start()
    soak.away = False
    soak.may_repeat(len(soak.workers))
    return gone


def kill_broker(soak: Soak, dice: random.Random) -> bool:
    """Without a last word, where it is a process of its own."""
    kafka = soak.server
    return restart_broker(soak, dice, kafka.kill if isinstance(kafka, ApacheKafka) else kafka.stop)


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


def jump_clock(soak: Soak, dice: random.Random) -> bool:
    """Of one worker, for a while."""
    worker = dice.choice([each for each in soak.workers.values() if each.alive()])
    soak.until(lambda: "ready:" in worker.output)
    jumps = len(worker.proofs)
    for _ in range(2):
        worker.signal(signal.SIGRTMIN)
        soak.wait(dice.uniform(5, 15))
    return len(worker.proofs) > jumps


def lose_dead_letters(soak: Soak, dice: random.Random) -> bool:
    """Delete their topic once all are read, and make it again."""
    soak.until(soak.is_ready)  # a worker that starts would make it
    topic = soak.topics["rejected"]
    with admin(soak.server.address) as client:
        soak.load.rate = 0
        try:
            if soak.until(lambda: soak.tally.verdict(soak.load.sent).missing == 0):
                client.delete_topics([topic])
                soak.reader.restart_letters()
        finally:
            soak.load.rate = soak.rate
        soak.wait(dice.uniform(5, 15))
        gone = topic not in client.list_topics()
    if gone:
        soak.create_letters()
    soak.may_repeat(len(soak.workers))
    return gone


def fill_disk(soak: Soak, dice: random.Random) -> bool:
    """That of the dead letters; freed after a while, and the broker restarted."""
    disk = soak.disk
    assert disk is not None
    disk.fill()
    full = soak.until(lambda: disk.offline_directories() == ["letters"])
    soak.wait(dice.uniform(*FULL_DISK_S))
    restart_broker(soak, dice)
    return full and soak.until(lambda: not disk.offline_directories())


def replace_seed(soak: Soak, dice: random.Random) -> bool:
    soak.seeds.version ^= 1
    soak.publish(soak.seeds.versions[soak.seeds.version])
    return in_force(soak)


def learn_profile(soak: Soak, dice: random.Random) -> bool:
    """As a person does at the desk: label matches, learn and use it, or go back a version."""
    before, event = soak.seeds.profile, soak.seeds.event
    page = f"api/learned?event={event}"
    try:
        if before and dice.random() < FORGET_SHARE:
            soak.ask_desk("api/learned/forget", event=event, version=before.version)
        else:
            for post in soak.ask_desk(f"api/matches?event={event}")["stories"][:LABELS]:
                names = {"platform": post["platform"], "id": post["id"]}
                verdict = dice.choice(("on", "on", "off"))
                soak.ask_desk("api/judge/label", event=event, verdict=verdict, **names)
            soak.ask_desk("api/learned/learn", event=event, hours=0, labels=True)
            soak.until(lambda: soak.ask_desk(page)["run"]["ended"])
            version = soak.ask_desk(page)["run"]["proposal"]["version"]
            soak.ask_desk("api/learned/publish", event=event, version=version)
    finally:
        soak.read_profile()
    after = soak.seeds.profile
    soak.note(f"{event}: {after.version if after else 'no profile'}")
    return in_force(soak) and after != before


def rewrite_control(soak: Soak, dice: random.Random) -> bool:
    """Every seed anew, many times, among records that are no seeds."""
    for _ in range(20):
        soak.publish(*dice.sample(soak.seeds.now(), len(soak.seeds.now())))
        soak.control(*((key, value) for _, key, value in BAD_SEEDS if len(value or b"") < 10_000))
    soak.control(*((key, None) for _, key, _ in BAD_SEEDS))
    return in_force(soak)


def in_force(soak: Soak) -> bool:
    """Whether each worker comes to serve the seeds that are published."""
    expected = seed_set(soak.seeds.now())

    def serves(worker: Worker) -> bool:
        with suppress(OSError, ValueError):
            return (worker.page("/seeds") or {}).get("seed_set") == expected
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
    soak.note(f"{before} to {soak.size} workers")
    return True


def burst(soak: Soak, dice: random.Random) -> bool:
    soak.load.rate, soak.calm_at = soak.rate * BURST, time.monotonic() + BURST_S
    return True


FAULTS: dict[str, Callable[[Soak, random.Random], bool]] = {
    "a worker killed": kill_worker,
    "the broker restarted": restart_broker,
    "the broker killed": kill_broker,
    "the network cut": cut_network,
    "the network slow": slow_network,
    "a clock jumps": jump_clock,
    "no topic for dead letters": lose_dead_letters,
    "no room for dead letters": fill_disk,
    "a seed replaced": replace_seed,
    "a profile learned": learn_profile,
    "the control topic rewritten": rewrite_control,
    "scaled": scale,
    "a burst": burst,
}


def run(soak: Soak, seed: int, seconds: float) -> dict[str, Any]:
    """The result, with what is wrong."""
    soak.wait(1)
    soak.until(soak.is_ready)
    soak.began = time.monotonic()
    soak.reader.start()
    soak.load.start()
    kinds = [kind for kind, cause in FAULTS.items() if soak.disk or cause is not fill_disk]
    for event in schedule(seed, seconds, kinds):
        if soak.now > seconds:
            break
        soak.wait(max(event.at - soak.now, 0))
        soak.cause(event)
    soak.wait(max(seconds - soak.now, 0))
    soak.load.rate = 0
    soak.load.stop()
    soak.note("no more posts")
    ended = soak.now
    drained = soak.until(lambda: soak.committed() == soak.load.sent, DRAIN_S)
    soak.reader.finish()
    verdict, committed = soak.tally.verdict(soak.load.sent), soak.committed()
    wrong = [f"{kind} never fired" for kind in soak.tried if not soak.fired[kind]]
    wrong += [] if drained else [f"{committed} posts committed of {soak.load.sent}"]
    wrong += [f"{verdict.missing} missing"] if verdict.missing else []
    wrong += [f"{verdict.twice} twice"] if verdict.twice > soak.allowed else []
    wrong += [f"{verdict.wrong} wrong", *soak.tally.examples] if verdict.wrong else []
    wrong += soak.crashes
    return {
        "seed": seed, "seconds": round(ended, 1), "rate": soak.rate, "posts": soak.load.sent,
        "drained_s": round(soak.now - ended, 1),
        **verdict._asdict(), "allowed": round(soak.allowed), "letters": soak.tally.letters,
        "fired": soak.fired, "tried": soak.tried, "surprises": soak.surprises,
        "complaints": wrong,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--rate", type=float, default=5000.0, help="posts a second")
    parser.add_argument("--kafka", choices=("apache", "embedded"), default="apache")
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}, results in {options.out}", flush=True)
    logging.disable()  # what clients say of a broker that is away
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(
            opened(
                options.kafka, folder, auto_create=False, **letter_disk.directory_settings(folder)
            )
        )
        network = stack.enter_context(Network(server.address).open())
        samples = stack.enter_context((options.out / "samples.jsonl").open("w", encoding="utf-8"))
        soak = Soak(server, network, folder, samples, options.rate)
        stack.callback(soak.close)
        result = run(soak, options.seed, options.hours * 3600)
    (options.out / "result.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    complaints = [*result["complaints"], *growth(curves(read(options.out)))]
    print(report(options.out), *complaints, sep="\n")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
