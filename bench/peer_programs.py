"""What a user would write in newsift's place: a Kafka client and a pretrained transformer.

`newsift bench peers` starts `python -m bench.peer_programs CLIENT` with the job in BENCH_PEER, and
ends it. Each client writes the id of the post, the seed and the score of every match, and commits
posts after the broker has acknowledged their matches. `newsift bench stream` starts the one that
does nothing.
"""

import asyncio
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from encoder.embeddings import Embeddings, unit_rows
from encoder.errors import InputError
from encoder.model.weights import F32
from encoder.model_directory import read_model
from encoder.support.named import model_directory
from encoder.text.tokenizer import Tokenizer
from train.data.readers import TrainingArticle
from train.teacher.minilm import PEER_MIX, Read, readable, whole

BATCH = 256
PIECES = 256  # of a text, that MiniLM reads
AT_ONCE = 64  # texts of like length


class MiniLM:
    """all-MiniLM-L6-v2 in int8 by ONNX Runtime, out of langchain4j's jar."""

    def __init__(self, jar: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        with zipfile.ZipFile(jar) as files:
            [model] = (name for name in files.namelist() if name.endswith(".onnx"))
            [rules] = (name for name in files.namelist() if name.endswith("tokenizer.json"))
            self._session = onnxruntime.InferenceSession(files.read(model))
            self._tokenizer = Tokenizer.from_str(files.read(rules).decode())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(PIECES)

    def texts(self, texts: Sequence[str]) -> F32:
        """Unit vectors: [n, 384]."""
        read = self._tokenizer.encode_batch(list(texts))
        order = np.argsort([len(text.ids) for text in read], kind="stable")
        vectors = np.zeros((len(read), 384), np.float32)
        for rows in np.array_split(order, -(-len(order) // AT_ONCE)):
            vectors[rows] = self._means([read[row].ids for row in rows])
        return unit_rows(vectors)

    def _means(self, ids: Sequence[Sequence[int]]) -> F32:
        """The mean state of each text's word pieces, of texts of like length."""
        table = np.zeros((len(ids), max(map(len, ids))), np.int64)  # [n, t]
        mask = np.zeros_like(table)
        for row, pieces in enumerate(ids):
            table[row, : len(pieces)], mask[row, : len(pieces)] = pieces, 1
        inputs = {"input_ids": table, "attention_mask": mask, "token_type_ids": 0 * table}
        (states,) = self._session.run(None, inputs)  # [n, t, 384]
        means: F32 = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return means


def open_transformer(jar: str) -> Read:
    """MiniLM of a jar or, without one, MPNet by PyTorch, in bf16 where the processor has it."""
    if jar:
        return MiniLM(Path(jar)).texts
    from train.transformer.mpnet import Mpnet

    return Mpnet.open().texts


class PeerReader:
    """A transformer's vectors beside newsift's words."""

    def __init__(self, read: Read) -> None:
        model = read_model(model_directory("default"))
        self._read = read
        self._words = Tokenizer(model.vocabulary, model.idf, model.weights.config)

    def posts(self, posts: Sequence[str]) -> Embeddings:
        dense = unit_rows(self._read([readable(post) for post in posts]))
        return Embeddings(dense, self._words.posts(posts).lexical, PEER_MIX, "a peer's")

    def articles(self, articles: Sequence[TrainingArticle]) -> Embeddings:
        """The articles in chunks, as newsift's teacher reads them."""
        words = self._words.articles(articles).lexical
        return Embeddings(whole(articles, self._read), words, PEER_MIX, "a peer's")


class PeerJob(msgspec.Struct, frozen=True):
    """Where the posts are, where the matches go, and what a match is."""

    kafka: str = ""
    group: str = ""
    posts: str = ""
    matches: str = ""
    seeds: str = ""  # a file of their embeddings
    thresholds: tuple[float, ...] = ()  # of the seeds
    jar: str = ""  # of MiniLM; empty for MPNet


class SeedScore(msgspec.Struct, frozen=True):
    """As much of a match record as a peer writes."""

    post: str
    seed: int
    score: float


class PeerMatcher:
    """Scores values of posts with all seeds."""

    def __init__(self, job: PeerJob) -> None:
        self._reader = PeerReader(open_transformer(job.jar))
        self._seeds, self._thresholds = Embeddings.load(job.seeds), np.array(job.thresholds)

    def matches(self, values: Sequence[bytes]) -> Iterator[SeedScore]:
        """The matches of some posts."""
        posts = [json.loads(value) for value in values]
        if not posts:
            return
        vectors = self._reader.posts([post["text"] for post in posts])
        scores = vectors.similarity(self._seeds)  # [n, k]
        for row, seed in np.argwhere(scores >= self._thresholds).tolist():
            yield SeedScore(posts[row]["id"], seed, float(scores[row, seed]))


def run_confluent(job: PeerJob) -> None:
    """confluent-kafka in a loop, a batch at a time."""
    from confluent_kafka import Consumer, Producer

    matcher = PeerMatcher(job)
    consumer = Consumer(
        {"bootstrap.servers": job.kafka, "group.id": job.group, "enable.auto.commit": False,
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    producer = Producer(
        {"bootstrap.servers": job.kafka, "enable.idempotence": True, "compression.type": "gzip"}
    )
    consumer.subscribe([job.posts])
    while True:
        messages = [message for message in consumer.consume(BATCH, 0.1) if not message.error()]
        for match in matcher.matches([message.value() for message in messages]):
            producer.produce(job.matches, msgspec.json.encode(match), key=match.post)
        if messages:
            producer.flush()
            consumer.commit(asynchronous=False)


def run_faust(job: PeerJob) -> None:
    """Faust's agent that takes batches, and waits for the matches of a batch together."""
    matcher, app = PeerMatcher(job), faust_app(job)
    output = app.topic(job.matches, value_type=bytes, value_serializer="raw")

    @app.agent(app.topic(job.posts, value_type=bytes, value_serializer="raw"))
    async def match(stream: Any) -> None:
        async for events in stream.noack().take_events(BATCH, within=0.1):
            sending = [
                await output.send(key=match.post, value=msgspec.json.encode(match))
                for match in matcher.matches([event.value for event in events])
            ]
            await asyncio.gather(*sending)
            for event in events:
                event.ack()

    app.main()


def run_nothing(job: PeerJob) -> None:
    """Faust as its manual shows it: an agent that takes one event after the other."""
    app = faust_app(job)

    @app.agent(app.topic(job.posts, value_type=bytes, value_serializer="raw"))
    async def nothing(stream: Any) -> None:
        async for _ in stream:
            pass

    app.main()


def faust_app(job: PeerJob) -> Any:
    """An app whose main() is its worker."""
    import faust

    sys.argv = ["faust", "worker", "--without-web", "--loglevel", "error"]
    return faust.App(
        job.group, broker=f"kafka://{job.kafka}", topic_disable_leader=True, web_enabled=False,
        broker_commit_interval=0.5,
    )  # fmt: skip


CLIENTS: dict[str, Callable[[PeerJob], None]] = {
    "confluent-kafka": run_confluent,
    "Faust, take()": run_faust,
}
NOTHING = ("-m", "bench.peer_programs", "nothing")


def main() -> None:
    """Run the client that is named, with the job in BENCH_PEER."""
    try:
        job = msgspec.json.decode(os.environ["BENCH_PEER"], type=PeerJob)
        (CLIENTS | {NOTHING[-1]: run_nothing})[sys.argv[1]](job)
    except (KeyError, IndexError, msgspec.MsgspecError) as error:
        raise InputError(f"BENCH_PEER: {error}; newsift bench peers starts this") from error


if __name__ == "__main__":
    main()
