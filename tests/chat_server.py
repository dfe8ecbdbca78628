"""A real HTTP server on loopback that speaks chat completions from a script, and keeps what it was sent."""

import json
import socket
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """One HTTP response. ``body`` is JSON, or text sent as a web page.

    ``held`` keeps the second half of the body back until it is set (5 s at most); ``cut`` closes the connection there.
    """

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    held: threading.Event | None = None
    cut: bool = False


def says(text: str | None, *calls: tuple[str, Any, str | None], usage: Any = (7, 3), **message: Any) -> Answer:
    """A completion with text and tool calls (name, arguments, id)."""
    tool_calls = [
        {"type": "function", "function": {"name": name, "arguments": arguments}, **({"id": id_} if id_ else {})}
        for name, arguments, id_ in calls
    ]
    choice = {
        "index": 0,
        "finish_reason": message.pop("finish_reason", "tool_calls" if calls else "stop"),
        "message": {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if calls else {}), **message},
    }
    body: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Answer(body)


def fails(status: int, message: str = "try later") -> Answer:
    """An error that asks to be retried at once."""
    return Answer({"error": {"message": message}}, status, {"retry-after-ms": "1"})


class ChatServer:
    """Plays answers in the order given; past the end, it answers 400. ``requests`` and ``headers`` are what came in."""

    def __init__(self) -> None:
        self.script: deque[Answer] = deque()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies_begun = 0
        self.open_connections: set[socket.socket] = set()
        self.connections = 0
        self._changed = threading.Condition()
        self._http = _HTTP(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def play(self, *answers: Answer) -> None:
        self.script.extend(answers)

    def opened(self, connection: socket.socket) -> None:
        with self._changed:
            self.connections += 1
            self.open_connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._changed:
            self.open_connections.discard(connection)
            self._changed.notify_all()

    def body_has_begun(self) -> None:
        with self._changed:
            self.bodies_begun += 1
            self._changed.notify_all()

    def wait_for_bodies(self, count: int) -> None:
        """Until the first half of that many answers was sent."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.bodies_begun >= count, 5)

    def all_closed(self, but: int = 0) -> bool:
        """Whether the clients closed all connections but some, waiting for it."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.open_connections) <= but, 5)

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        for connection in list(self.open_connections):
            connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()


class _HTTP(ThreadingHTTPServer):
    daemon_threads = False  # so that closing the server waits for its handlers
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is part of the tests."""


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections open, as real servers do
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            server.opened(self.connection)

        def finish(self) -> None:
            try:
                super().finish()
            finally:
                server.closed(self.connection)

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.requests.append({"path": self.path, **request})
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = server.script.popleft() if server.script else Answer({"error": {"message": "no script"}}, 400)
            page = isinstance(answer.body, str)
            body = answer.body.encode() if page else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            self.send_header("content-type", "text/html" if page else "application/json")
            self.send_header("content-length", str(len(body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            half = len(body) // 2
            self.wfile.write(body[:half])
            server.body_has_begun()
            if answer.cut:
                self.close_connection = True
                return
            if answer.held is not None:
                answer.held.wait(5)
            self.wfile.write(body[half:])

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Tests print nothing."""

    return Handler
