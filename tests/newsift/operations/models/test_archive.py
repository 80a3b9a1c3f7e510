"""A model as one file: the same to the byte, read by any tar, and hostile ones refused."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import ModelError
from encoder.model_directory import read_model, write_model
from newsift.operations.models import FILES, pack, unpack
from tests.encoder.small import small_model


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


def long_header(kind: bytes) -> bytes:
    return member("././@LongLink", b"manifest.json", kind) + member("manifest.json")


def endless() -> bytes:
    """A header that promises eight gigabytes in base 256, and no content."""
    info = tarfile.TarInfo("manifest.json")
    info.size = 2**36
    return info.tobuf(tarfile.GNU_FORMAT)


def negative() -> bytes:
    info = tarfile.TarInfo("manifest.json")
    info.size = -1024
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
    "long name": lambda: long_header(tarfile.GNUTYPE_LONGNAME),
    "too large": endless,
    "less than nothing": negative,
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
    with pytest.raises(ModelError, match="is no model as"):
        unpack(io.BytesIO(HOSTILE[kind]() + (b"" if kind == "cut" else ends)), into)
    assert [path.name for path in tmp_path.iterdir()] == ["into"]
    assert {path.name for path in into.iterdir()} <= {"manifest.json"}
    assert sum(path.stat().st_size for path in into.iterdir()) < 2000


@given(st.data())
def test_damage_is_contained(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(FILES)), unique=True, max_size=4))
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
    assert {path.name for path in held} <= FILES
    assert all(path.is_file() and not path.is_symlink() for path in held)
    assert sum(path.stat().st_size for path in held) <= len(content)
