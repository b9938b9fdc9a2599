"""Health for Kubernetes, on a thread of its own: busy handlers do not make the process look dead."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

from .errors import InvalidOption

#: How long a prober may take to ask, in seconds: one is answered at a time.
REQUEST_TIMEOUT = 1.0


class Health:
    """Serves /healthz (the worker's own thread works) and /readyz (attached, its lease valid, not leaving)."""

    def __init__(self, address: tuple[str, int], alive: Callable[[], bool], ready: Callable[[], bool]) -> None:
        questions = {"/healthz": alive, "/readyz": ready}

        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_TIMEOUT

            def do_GET(self) -> None:
                question = questions.get(self.path.partition("?")[0])
                if question is None:
                    self._answer(404, "not found")
                elif question():
                    self._answer(200, "ok")
                else:
                    self._answer(503, "not ready")

            def _answer(self, code: int, text: str) -> None:
                body = f"{text}\n".encode()
                self.send_response(code)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Does not log probes."""

        try:
            self._server = _Server(address, Handler)
        except OSError as error:
            host, port = address
            raise InvalidOption(f"health: {host}:{port} cannot be served: {error.strerror}: give another") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="rosterd-health", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(HTTPServer):
    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer's own method looks up the host's name, which may take long and is not needed.
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """A prober that went away."""
