"""A packed model, a place to add it to, and a server on this machine to fetch it from."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from encoder.model_directory import write_model
from newsift.operations.models import pack
from tests.encoder.small import small_model

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@dataclass
class WebSide:
    """What a server holds, and where it stops in the middle until it may go on."""

    files: dict[str, bytes] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    short: int = 0  # bytes kept back of what was promised
    halfway: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    base: str = ""


class Packed(bytes):
    @property
    def digest(self) -> str:
        return hashlib.sha256(self).hexdigest()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path / "state"))
    return tmp_path / "state" / "models"


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("packed")
    write_model(folder / "m", small_model())
    (folder / "m.md").write_text("# A card\n\nReads little.\n")
    pack(folder / "m", folder / "m.tar")
    return Packed((folder / "m.tar").read_bytes())


@pytest.fixture
def web() -> Iterator[WebSide]:
    side = WebSide()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(side))
    server.daemon_threads = True
    side.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield side
    finally:
        side.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()


def handler_of(side: WebSide) -> type[BaseHTTPRequestHandler]:
    """What answers there; /slow/… sends one half and waits."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if there := side.moved.get(self.path):
                self.send_response(302)
                self.send_header("Location", there)
                self.end_headers()
                return
            content = side.files.get(self.path.removeprefix("/slow").partition("?")[0])
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            middle = len(content) // 2
            self.wfile.write(content[:middle])
            if self.path.startswith("/slow/"):
                side.halfway.set()
                side.go_on.wait(60)
            self.wfile.write(content[middle : len(content) - side.short])

        def log_message(self, *_: object) -> None:
            pass

    return Handler
