"""A model is fetched within bounds and added whole or not at all."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from encoder.errors import InputError, ModelError
from encoder.support.named import model_directory, named_models
from newsift.operations.models import add, download, is_secure, remove
from tests.newsift.operations.models.conftest import Packed, WebSide


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


def test_an_address_needs_a_digest(state: Path, web: WebSide, packed: Packed) -> None:
    web.files["/dir/own.tar"] = packed
    with pytest.raises(InputError, match="needs --digest"):
        add(f"{web.base}/dir/own.tar", None, None)
    assert add(f"{web.base}/dir/own.tar?v=1", packed.digest, None) == state / "own"
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


def test_a_killed_add_is_swept(state: Path, file: Path, web: WebSide, packed: Packed) -> None:
    web.files["/own.tar"] = packed
    words = ["models", "add", f"{web.base}/slow/own.tar", "--digest", packed.digest]
    code = "import sys, newsift.cli; sys.exit(newsift.cli.run(sys.argv[1:]))"
    child = subprocess.Popen([sys.executable, "-c", code, *words])
    try:
        assert web.halfway.wait(60)
    finally:
        child.kill()
        child.wait()
    assert list(named_models()) == ["default"]
    assert len(visible(state)) == 1  # hidden, and swept by the next
    add(str(file), None, "next")
    assert visible(state) == {"next"}


@pytest.mark.parametrize(
    "url",
    ["http://example.org/m.tar", "ftp://127.0.0.1/m.tar", "file:///etc/passwd", "http://10.0.0.1/"],
)
def test_refuses_an_address_that_is_neither_https_nor_local(url: str) -> None:
    with pytest.raises(InputError, match=r"is not https://|no address of the web"):
        download(url, io.BytesIO())


def test_https_is_never_left_for_http() -> None:
    assert is_secure("https://example.org/m.tar", False)
    with pytest.raises(InputError, match="is not https://"):
        is_secure("http://127.0.0.1/m.tar", True)


def test_redirects_are_followed_on_this_machine_and_end(web: WebSide, tmp_path: Path) -> None:
    web.files["/m"] = b"abc" * 99_999
    web.moved = {"/a": "/b", "/b": "/m", "/round": "/round", "/away": "http://example.org/m"}
    out = tmp_path / "out"
    with out.open("wb") as file:
        download(f"{web.base}/a", file)
    assert out.read_bytes() == web.files["/m"]
    with pytest.raises(InputError, match="redirects more than"):
        download(f"{web.base}/round", io.BytesIO())
    with pytest.raises(InputError, match=r"example.org/m: is not https://"):
        download(f"{web.base}/away", io.BytesIO())


def test_more_than_the_bound_less_than_promised_and_nothing_are_refused(web: WebSide) -> None:
    web.files["/m"] = bytes(200_000)
    with pytest.raises(InputError, match="is larger than"):
        download(f"{web.base}/m", io.BytesIO(), largest=199_999)
    with pytest.raises(InputError, match="answers 404"):
        download(f"{web.base}/none", io.BytesIO())
    web.short = 7
    with pytest.raises(InputError, match="ends early"):
        download(f"{web.base}/m", io.BytesIO())


def test_gives_up_a_server_that_drips(web: WebSide) -> None:
    web.files["/m"] = bytes(200_000)
    with pytest.raises(InputError, match="took too long"):
        download(f"{web.base}/slow/m", io.BytesIO(), seconds=0.1)
