"""The other sides: a web server that takes JSON, and a mail server; real sockets on 127.0.0.1."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OK = (200, b'{"errcode":0,"errmsg":"ok"}')


class Web(ThreadingHTTPServer):
    """Keeps what it got; answers what is in `answers`, then OK; waits while `gate` is not set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.gate, self.arrived = threading.Event(), threading.Event()
        self.gate.set()

    def url(self, path: str = "/cgi-bin/webhook/send?key=11aa22bb-KEY") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.got]

    @property
    def texts(self) -> list[str]:
        """The contents that WeCom's robot would show."""
        return [body[body["msgtype"]]["content"] for body in self.bodies]


class _Handler(BaseHTTPRequestHandler):
    server: Web

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers.items()), body))
        self.server.arrived.set()
        self.server.gate.wait(60)
        status, answer = self.server.answers.pop(0) if self.server.answers else OK
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            pass  # who asked has gone

    def log_message(self, *args: Any) -> None:
        pass


class Mail(socketserver.ThreadingTCPServer):
    """Takes every mail: (from, to, text)."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Mailbox)
        self.got: list[tuple[str, str, str]] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Mailbox(socketserver.StreamRequestHandler):
    server: Mail

    def handle(self) -> None:
        sender = to = ""
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line.strip().decode()
            verb = word.upper()
            if verb.startswith("MAIL FROM"):
                sender = word[10:]
            elif verb.startswith("RCPT TO"):
                to = word[8:]
            elif verb == "DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = []
                while (part := self.rfile.readline()) != b".\r\n":
                    lines.append(part.decode())
                self.server.got.append((sender, to, "".join(lines)))
            elif verb == "QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            self.wfile.write(b"250 yes\r\n")


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    """Have a stub answer for the length of the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
