import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError, ModelError
from encoder.model_directory import read_model, write_model
from encoder.support.named import model_directory, named_models
from newsift.operations.models import MODEL_FILES, add, download, is_secure, pack, remove, unpack
from tests.broker.clients import until
from tests.encoder.small import small_model
from tests.newsift.cli.seeds.feed_side import Reply, Site
from tests.newsift.worker_web import dripping
from tests.worker.processes import started
from tests.worker.web_side import serving


class Packed(bytes):
    @property
    def digest(self) -> str:
        return hashlib.sha256(self).hexdigest()


@pytest.fixture
def state(state_folder: Path) -> Path:
    return state_folder / "models"


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("packed")
    write_model(folder / "m", small_model())
    (folder / "m.md").write_text("# A card\n\nReads little.\n")
    pack(folder / "m", folder / "m.tar")
    return Packed((folder / "m.tar").read_bytes())


@pytest.fixture
def web() -> Iterator[Site]:
    with serving(Site()) as site:
        yield site


@pytest.fixture
def file(tmp_path: Path, packed: Packed) -> Path:
    (tmp_path / "own.tar").write_bytes(packed)
    return tmp_path / "own.tar"


def visible(state: Path) -> set[str]:
    return {path.name for path in state.iterdir()} - {".lock"} if state.exists() else set()


def test_a_file_is_added_and_removed(state: Path, file: Path, packed: Packed) -> None:
    assert add(str(file), packed.digest, None) == state / "own" == model_directory("own")
    assert add(str(file), None, "other") == state / "other"
    remove("own")
    assert visible(state) == {"other"}
    with pytest.raises(InputError, match=r"'own'.*\(added: other\)"):
        remove("own")


@pytest.mark.parametrize("name", ["..", ".lock", "a/b", "Own", "", "x" * 65, "own\n"])
def test_odd_names_are_refused(file: Path, state: Path, name: str) -> None:
    if name:
        with pytest.raises(InputError, match="--name"):
            add(str(file), None, name)
    with pytest.raises(InputError):
        remove(name)
    assert visible(state) == set()


def test_a_name_that_is_taken_is_refused_and_stays(state: Path, file: Path) -> None:
    add(str(file), None, None)
    before = (state / "own" / "manifest.json").read_bytes()
    with pytest.raises(InputError, match="`newsift models remove own`"):
        add(str(file), None, None)
    assert (state / "own" / "manifest.json").read_bytes() == before


def test_an_address_needs_a_digest(state: Path, web: Site, packed: Packed) -> None:
    web.replies["/dir/own.tar?v=1"] = Reply(packed)
    with pytest.raises(InputError, match="needs --digest"):
        add(f"{web.url}/dir/own.tar", None, None)
    assert add(f"{web.url}/dir/own.tar?v=1", packed.digest, None) == state / "own"
    assert visible(state) == {"own"}


def test_refuses_a_wrong_digest(state: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.operations.models.unpack", lambda *_: pytest.fail("was unpacked"))
    with pytest.raises(ModelError, match=f"wrong digest .* expected {'0' * 64}"):
        add(str(file), "0" * 64, None)
    assert visible(state) == set()


def test_adds_no_damaged_model(state: Path, tmp_path: Path, packed: Packed) -> None:
    at = packed.index(b"vocabulary.txt\0") + 512
    bad = tmp_path / "bad.tar"
    bad.write_bytes(packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :])
    with pytest.raises(ModelError) as output:
        add(str(bad), None, None)
    assert "vocabulary.txt: wrong digest" in str(output.value)
    assert ".adding-" not in str(output.value)
    assert visible(state) == set()


def test_a_killed_add_is_swept(state: Path, file: Path, packed: Packed) -> None:
    with dripping(b"HTTP/1.1 200 OK\r\n\r\n") as (port, _):
        url = f"http://127.0.0.1:{port}/own.tar"
        with started("models", "add", url, "--digest", packed.digest):
            until(lambda: visible(state))
    assert list(named_models()) == ["default"]
    assert len(visible(state)) == 1  # hidden, and swept by the next
    add(str(file), None, "next")
    assert visible(state) == {"next"}


@pytest.mark.parametrize(
    "url",
    ["http://example.org/m.tar", "ftp://127.0.0.1/m.tar", "file:///etc/passwd", "http://10.0.0.1/"],
)
def test_refuses_an_address_that_is_neither_https_nor_local(url: str) -> None:
    with pytest.raises(InputError, match=r"is not https://|not an address of the web"):
        download(url, io.BytesIO())


def test_https_is_never_left_for_http() -> None:
    assert is_secure("https://example.org/m.tar", False)
    with pytest.raises(InputError, match="is not https://"):
        is_secure("http://127.0.0.1/m.tar", True)


def test_redirects_are_followed_on_this_machine_and_end(web: Site, tmp_path: Path) -> None:
    moved = {"/a": "/b", "/b": "/m", "/round": "/round", "/away": "http://example.org/m"}
    for path, there in moved.items():
        web.replies[path] = Reply(status=302, headers={"Location": there})
    web.replies["/m"] = Reply(b"abc" * 99_999)
    out = tmp_path / "out"
    with out.open("wb") as file:
        download(f"{web.url}/a", file)
    assert out.read_bytes() == web.replies["/m"].body
    with pytest.raises(InputError, match="redirects more than"):
        download(f"{web.url}/round", io.BytesIO())
    with pytest.raises(InputError, match=r"example.org/m: is not https://"):
        download(f"{web.url}/away", io.BytesIO())


def test_more_than_the_bound_and_nothing_are_refused(web: Site) -> None:
    web.replies["/m"] = Reply(bytes(200_000))
    with pytest.raises(InputError, match="is larger than"):
        download(f"{web.url}/m", io.BytesIO(), largest=199_999)
    with pytest.raises(InputError, match="answers 404"):
        download(f"{web.url}/none", io.BytesIO())


def test_gives_up_a_server_that_drips() -> None:
    with (
        dripping(b"HTTP/1.1 200 OK\r\n\r\n") as (port, _),
        pytest.raises(InputError, match="took too long"),
    ):
        download(f"http://127.0.0.1:{port}/m", io.BytesIO(), seconds=0.1)


def member(name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = len(content), kind
    info.linkname = "/etc/passwd" if kind in (tarfile.LNKTYPE, tarfile.SYMTYPE) else ""
    return info.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512)


def test_it_is_the_directory_for_any_tar_and_for_us(tmp_path: Path) -> None:
    digest = write_model(tmp_path / "m", small_model())
    (tmp_path / "m.md").write_text("# A card\n")
    output = [pack(tmp_path / "m", tmp_path / f"{name}.tar") for name in "ab"]
    content = (tmp_path / "a.tar").read_bytes()
    assert output == [hashlib.sha256(content).hexdigest()] * 2
    with tarfile.open(tmp_path / "a.tar", "r:") as tar:
        held = {name: file.read() for name in tar.getnames() if (file := tar.extractfile(name))}
    expected = {file.name: file.read_bytes() for file in (tmp_path / "m").iterdir()}
    assert held == expected | {"card.md": b"# A card\n"}
    (tmp_path / "new").mkdir()
    unpack(io.BytesIO(content), tmp_path / "new")
    assert {f.name: f.read_bytes() for f in (tmp_path / "new").iterdir()} == held
    assert read_model(tmp_path / "new").digest == digest


def test_packs_no_damaged_model(tmp_path: Path) -> None:
    write_model(tmp_path / "m", small_model())
    (tmp_path / "m" / "check.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"check\.safetensors"):
        pack(tmp_path / "m", tmp_path / "m.tar")
    assert not (tmp_path / "m.tar").exists()


def promising(size: int) -> bytes:
    """A header of this size in base 256, and no content."""
    info = tarfile.TarInfo("manifest.json")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "outside": lambda: member("../manifest.json"),
    "another name": lambda: member("run.sh"),
    "a folder": lambda: member("manifest.json", b"", tarfile.DIRTYPE),
    "twice": lambda: member("manifest.json") * 2,
    "hard link": lambda: member("manifest.json", b"", tarfile.LNKTYPE),
    "device": lambda: member("manifest.json", b"", tarfile.CHRTYPE),
    "sparse": lambda: member("manifest.json", b"x", tarfile.GNUTYPE_SPARSE),
    "extended": lambda: member("manifest.json", b"20 size=99999999999\n", tarfile.XHDTYPE),
    "long name": lambda: (
        member("././@LongLink", b"manifest.json", tarfile.GNUTYPE_LONGNAME)
        + member("manifest.json")
    ),
    "too large": lambda: promising(2**36),
    "less than nothing": lambda: promising(-1024),
    "cut": lambda: member("manifest.json", bytes(2000))[:1024],
    "no end": lambda: member("manifest.json"),
    "nothing": bytes,
    "packed": lambda: b"\x1f\x8b" + bytes(600),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_ones_are_refused_and_reach_nothing(tmp_path: Path, kind: str) -> None:
    into = tmp_path / "into"
    into.mkdir()
    ends = b"" if kind in ("no end", "nothing") else bytes(1024)
    with pytest.raises(ModelError, match="is not a model as"):
        unpack(io.BytesIO(HOSTILE[kind]() + (b"" if kind == "cut" else ends)), into)
    assert [path.name for path in tmp_path.iterdir()] == ["into"]
    assert {path.name for path in into.iterdir()} <= {"manifest.json"}
    assert sum(path.stat().st_size for path in into.iterdir()) < 2000


@given(st.data())
def test_damage_is_contained(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(MODEL_FILES)), unique=True, max_size=4))
    content = bytearray(b"".join(member(name, b"abc" * 300) for name in names) + bytes(1024))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    outer = tmp_path_factory.mktemp("wild")
    (outer / "into").mkdir()
    output = ""
    try:
        unpack(io.BytesIO(bytes(content)), outer / "into")
    except ModelError as error:
        output = str(error)
    assert output.isprintable()
    assert [path.name for path in outer.iterdir()] == ["into"]
    held = list((outer / "into").iterdir())
    assert {path.name for path in held} <= MODEL_FILES
    assert all(path.is_file() and not path.is_symlink() for path in held)
    assert sum(path.stat().st_size for path in held) <= len(content)
