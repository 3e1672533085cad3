"""HTTP connections whose clients cannot keep others waiting: headers arrive in time and are short."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS, HEADER_BYTES = 20, 64 * 1024
# A client that sends no more may still wait for its answer, or be gone: one cannot tell.
HALF_CLOSED_SECONDS = 10
# What goes on sending although it was refused is read for so long, or else it would not see its answer.
REFUSED_SECONDS = 10


class Connection(HttpToolsProtocol):
    """A connection of uvicorn, with a time limit for headers, and answers to clients that have sent all they will."""

    _timer: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _is_receiving = False  # a request, from its first byte to the last one of its body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timer is None and not self._is_receiving:
            self._expect_headers()
        super().data_received(data)
        if self._timer is not None:  # the headers go on
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES:
                self._end(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        self._is_receiving = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_receiving = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_receiving:
            self.loop.call_later(REFUSED_SECONDS, self._end_refused, self.cycle)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open for the answer."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        if not self.pipeline:
            self.cycle.keep_alive = False
        self.loop.call_later(HALF_CLOSED_SECONDS, self.transport.close)
        return True

    def _expect_headers(self) -> None:
        self._header_bytes = 0
        self._timer = self.loop.call_later(HEADER_SECONDS, self._end, b"408 Request Timeout")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, status: bytes) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()

    def _end_refused(self, cycle: object) -> None:
        if self._is_receiving and self.cycle is cycle:
            self.transport.close()
