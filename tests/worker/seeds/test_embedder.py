"""The cache of seeds: nothing is embedded twice, and no state of the disk changes the result."""

import logging
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoder import Embeddings
from encoder.model.weights import F32
from encoder.text.clean import Article
from tests.worker.small import ARTICLES, book_of, small_encoder, value
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.record import digest
from worker.seeds.set import SeedBook, SeedSet
from worker.service import seed_files as seedfiles


class Counting:
    """An encoder that says what it was asked for."""

    def __init__(self, mix: float = 0.6) -> None:
        self.real = small_encoder(mix)
        self.digest = self.real.digest
        self.embedded: list[Article] = []
        self.cut = 0

    def articles(self, texts: Sequence[Article]) -> Embeddings:
        self.embedded += texts
        return self.real.articles(texts)

    def thresholds(self, articles: Embeddings, rate: float) -> F32:
        self.cut += len(articles)
        return self.real.thresholds(articles, rate)


def embedder(
    enc: Counting, folder: Path | None, rate: float = 0.01, threshold: float | None = None
) -> SeedEmbedder:
    return SeedEmbedder(enc, folder, rate, threshold)  # type: ignore[arg-type]


def book() -> SeedBook:
    return book_of(**{name: {"text": text} for name, text in ARTICLES.items()})


def same(one: SeedSet, other: SeedSet) -> bool:
    """Whether two sets are equal to the bit."""
    words, others = one.embeddings.lexical, other.embeddings.lexical
    return (
        (one.seeds, one.digest, one.refused) == (other.seeds, other.digest, other.refused)
        and np.array_equal(one.thresholds, other.thresholds)
        and np.array_equal(one.embeddings.dense, other.embeddings.dense)
        and np.array_equal(words.indptr, others.indptr)
        and np.array_equal(words.slots, others.slots)
        and np.array_equal(words.weights, others.weights)
    )


def fresh(rate: float = 0.01) -> SeedSet:
    return embedder(Counting(), None, rate).make(book())


def test_only_what_is_new_is_embedded() -> None:
    enc, seeds = Counting(), book()
    maker = embedder(enc, None)
    maker.make(seeds)
    assert (len(enc.embedded), enc.cut) == (4, 4)
    seeds.apply(b"flood", value(text="river flood", title="new"))
    seeds.apply(b"game", None)
    seeds.apply(b"raid", value(text=ARTICLES["raid"], event="city", expires_at=None))
    seeds.apply(b"twin", value(text=ARTICLES["pets"]))
    made = maker.make(seeds)
    assert enc.embedded[4:] == [("new", "river flood")]
    assert enc.cut == 5
    assert [seed.id for seed in made.seeds] == ["flood", "pets", "raid", "twin"]


def test_a_restart_embeds_nothing(tmp_path: Path) -> None:
    first = embedder(Counting(), tmp_path / "new" / "folder").make(book())
    enc = Counting()
    assert same(embedder(enc, tmp_path / "new" / "folder").make(book()), first)
    assert (enc.embedded, enc.cut) == ([], 0)


def test_thresholds_are_made_where_they_are_needed(tmp_path: Path) -> None:
    enc = Counting()
    made = embedder(enc, tmp_path, threshold=0.5).make(book())
    assert enc.cut == 0
    assert made.thresholds.tolist() == [0.5] * 4
    again = Counting()
    assert same(embedder(again, tmp_path).make(book()), fresh())
    assert (again.embedded, again.cut) == ([], 4)
    last = Counting()
    assert same(embedder(last, tmp_path).make(book()), fresh())
    assert (last.embedded, last.cut) == ([], 0)


def test_a_rate_finer_than_the_background_refuses_the_seeds_that_need_it_alone() -> None:
    seeds = book_of(own={"text": ARTICLES["raid"], "threshold": 0.3}, bare={"text": "river flood"})
    made = embedder(Counting(), None, 1e-9).make(seeds)
    assert [seed.id for seed in made.seeds] == ["own"]
    assert [seed.id for seed in made.refused] == ["bare"]
    assert made.refused[0].reason.startswith("matching.background_rate: 1e-09 is finer than ")
    assert not embedder(Counting(), None, 1e-9, threshold=0.2).make(seeds).refused


def test_another_rate_has_its_own_thresholds(tmp_path: Path) -> None:
    embedder(Counting(), tmp_path, rate=0.01).make(book())
    assert same(embedder(Counting(), tmp_path, rate=0.1).make(book()), fresh(0.1))
    assert (fresh(0.1).thresholds < fresh(0.01).thresholds).any()


def damage(file: Path, how: str) -> None:
    """Do something bad to a file."""
    content = file.read_bytes()
    if how == "cut short":
        file.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "one bit":
        middle = len(content) - 40
        flipped = bytes([content[middle] ^ 1])
        file.write_bytes(content[:middle] + flipped + content[middle + 1 :])
    elif how == "a folder":
        file.unlink()
        file.mkdir()


@pytest.mark.parametrize("how", ["cut short", "empty", "one bit", "a folder"])
def test_a_damaged_file_is_left_out_with_a_warning(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    embedder(Counting(), tmp_path).make(book())
    (file,) = tmp_path.iterdir()
    damage(file, how)
    enc = Counting()
    with caplog.at_level(logging.WARNING, "newsift.seeds"):
        assert same(embedder(enc, tmp_path).make(book()), fresh())
    assert len(enc.embedded) == 4
    assert "damaged" in caplog.text


def open_folder(folder: Path, file: Path) -> None:
    folder.chmod(0o777)


def open_file(folder: Path, file: Path) -> None:
    file.chmod(0o666)


def give_away(folder: Path, file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(file, 12345, -1)


def link(folder: Path, file: Path) -> None:
    file.rename(folder / "elsewhere")
    file.symlink_to(folder / "elsewhere")


@pytest.mark.parametrize("opened", [open_folder, open_file, give_away, link])
def test_what_another_may_have_written_is_embedded_anew(
    tmp_path: Path, opened: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A file that agrees with its own name, but swaps the vectors of two seeds."""
    embedder(Counting(), tmp_path).make(book())
    (file,) = tmp_path.iterdir()
    files = seedfiles.SeedFiles(tmp_path, Counting().digest, 0.01)
    (entries,) = files.load()
    file.unlink()
    files.add(replace(entries, embeddings=entries.embeddings[[1, 0, 2, 3]]), keep=())
    (file,) = tmp_path.iterdir()
    assert not same(embedder(Counting(), tmp_path).make(book()), fresh()), "the attack works"
    opened(tmp_path, file)
    enc = Counting()
    with caplog.at_level(logging.WARNING, "newsift.seeds"):
        assert same(embedder(enc, tmp_path).make(book()), fresh())
    assert len(enc.embedded) == 4
    assert len(caplog.records) == 1


def test_files_are_nobody_elses_business(tmp_path: Path) -> None:
    embedder(Counting(), tmp_path / "cache").make(book())
    (file,) = (tmp_path / "cache").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("cached", [True, False])
def test_articles_whose_versions_collide_keep_their_own_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    """Twelve digits are soon made to collide; a vector goes by all sixty-four."""
    monkeypatch.setattr(
        "worker.seeds.record.digest", lambda value: f"{'0' * 12}{digest(value)[12:]}"
    )
    folder = tmp_path if cached else None
    embedder(Counting(), folder).make(book_of(a={"text": ARTICLES["flood"]}))
    made = embedder(Counting(), folder).make(book())
    assert {seed.version for seed in made.seeds} == {"0" * 12}
    np.testing.assert_array_equal(made.embeddings.dense, fresh().embeddings.dense)


def test_another_models_file_under_this_ones_name(tmp_path: Path) -> None:
    embedder(Counting(0.0), tmp_path).make(book())
    (foreign,) = tmp_path.iterdir()
    embedder(Counting(), tmp_path).make(book())
    (own,) = set(tmp_path.iterdir()) - {foreign}
    own.unlink()
    prefix, hashed = own.name[:18], foreign.name[18:]
    shutil.copy(foreign, tmp_path / f"{prefix}{hashed}")
    enc = Counting()
    assert same(embedder(enc, tmp_path).make(book()), fresh())
    assert len(enc.embedded) == 4


def test_strangers_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "seeds-notes.txt").write_text("mine")
    for n in range(20):
        maker = embedder(Counting(), tmp_path)
        maker.make(book_of(s={"text": f"storm {'a' * n}"}))
    assert (tmp_path / "seeds-notes.txt").read_text() == "mine"


def test_a_disk_that_cannot_be_written_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    maker, seeds = embedder(Counting(), blocked / "cache"), book()
    with caplog.at_level(logging.WARNING, "newsift.seeds"):
        assert same(maker.make(seeds), fresh())
        seeds.apply(b"new", value(text="storm"))
        assert len(maker.make(seeds)) == 5
    assert len(caplog.records) == 1
    assert "not cached" in caplog.text


def test_the_folder_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seedfiles, "SPARE", 3)
    seeds, maker = book(), embedder(Counting(), tmp_path)
    for n in range(60):
        seeds.apply(b"flood", value(text=f"river {'x' * n}"))
        made = maker.make(seeds)
        assert len(list(tmp_path.iterdir())) <= seedfiles.MAX_FILES + 1
    held = [
        content
        for file in tmp_path.iterdir()
        for content in seedfiles.from_bytes(file.read_bytes(), Counting().digest).contents
    ]
    assert len(held) <= 4 + 3 + seedfiles.MAX_FILES + 1
    enc = Counting()
    assert same(embedder(enc, tmp_path).make(seeds), made)
    assert enc.embedded == []


def test_old_models_are_forgotten(tmp_path: Path) -> None:
    for rate in (0.01, 0.02, 0.03, 0.04, 0.05, 0.06):
        embedder(Counting(), tmp_path, rate).make(book())
    assert len(list(tmp_path.iterdir())) == seedfiles.MAX_MODELS
    enc = Counting()
    embedder(enc, tmp_path, 0.06).make(book())
    assert enc.embedded == []


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (np.full(12, np.nan, np.float32), "text: the model gives it no finite vector"),
        (np.zeros(12, np.float32), "text: holds no word that the model reads"),
    ],
)
def test_a_seed_that_posts_cannot_be_compared_with_is_refused(row: F32, reason: str) -> None:
    class Odd(Counting):
        def articles(self, texts: Sequence[Article]) -> Embeddings:
            made = super().articles(texts)
            dense, words = made.dense.copy(), made.lexical
            for i, text in enumerate(texts):
                if text[1] == "storm":
                    dense[i] = row
                    words = type(words).empty(len(texts))
            return Embeddings(dense, words, made.mix, made.digest)

    seeds = book_of(good={"text": "flood"}, odd={"text": "storm"})
    made = embedder(Odd(), None).make(seeds)
    assert [seed.id for seed in made.seeds] == ["good"]
    assert [(seed.id, seed.reason) for seed in made.refused] == [("odd", reason)]
