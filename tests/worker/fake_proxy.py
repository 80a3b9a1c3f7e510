"""A proxy of the web, as RFC 9110 (https://www.rfc-editor.org/rfc/rfc9110, 9.3.6) has CONNECT.

For http:// it takes the whole address in the request's line (RFC 9112, 3.2.2). Whatever host is
asked for, it goes to one port of this machine.
"""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.worker.fake_web_server import Handler, Server, serving


@dataclass
class ProxySide:
    """What a proxy was asked for, where it goes, and what it answers instead if it refuses."""

    goes_to: int
    refuses: int = 0
    port: int = 0
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)


@contextmanager
def proxy_server(side: ProxySide) -> Iterator[ProxySide]:
    with serving(Server(handler_of(side))) as server:
        side.port = server.server_port
        yield side


def handler_of(side: ProxySide) -> type[Handler]:
    class Proxy(Handler):
        def do_CONNECT(self) -> None:
            if self._noted():
                self.send_response(200)
                self.end_headers()
                with socket.create_connection(("127.0.0.1", side.goes_to)) as there:
                    back = threading.Thread(target=copy, args=[there, self.connection])
                    back.start()
                    copy(self.connection, there)
                    back.join()

        def do_GET(self) -> None:
            if self._noted():
                there = http.client.HTTPConnection("127.0.0.1", side.goes_to)
                there.request("GET", urlsplit(self.path).path)
                answer = there.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.read())
                there.close()

        def _noted(self) -> bool:
            side.asked.append(f"{self.command} {self.path}")
            side.logins.append(self.headers["Proxy-Authorization"])
            if side.refuses:
                self.send_error(side.refuses)
            return not side.refuses

    return Proxy


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
