"""A file from the web comes over https or from this machine, and within its bounds."""

import io
from pathlib import Path

import pytest

from encoder.errors import InputError
from newsift.operations.models import download, is_secure
from tests.newsift.operations.models.conftest import WebSide


@pytest.mark.parametrize(
    "url",
    ["http://example.org/m.tar", "ftp://127.0.0.1/m.tar", "file:///etc/passwd", "http://10.0.0.1/"],
)
def test_what_is_neither_https_nor_this_machine_is_refused_unasked(url: str) -> None:
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


def test_whoever_drips_is_left(web: WebSide) -> None:
    web.files["/m"] = bytes(200_000)
    with pytest.raises(InputError, match="took too long"):
        download(f"{web.base}/slow/m", io.BytesIO(), seconds=0.1)


def test_a_full_disk_is_named(web: WebSide) -> None:
    web.files["/m"] = bytes(200_000)
    with (
        Path("/dev/full").open("wb", buffering=0) as full,
        pytest.raises(InputError, match=r"/dev/full.*No space left"),
    ):
        download(f"{web.base}/m", full)
