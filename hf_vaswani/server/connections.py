"""HTTP connections whose clients cannot keep others waiting: who sends or reads too slowly is cut off."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Headers of a request, and what a client still sends of a request that was refused, or else it would not see why.
HEADER_SECONDS, REFUSED_SECONDS = 20, 10
# A client that sends no more may wait for its answer, or be gone: one cannot tell.
HALF_CLOSED_SECONDS = 30
# A client that waits for its answer, and reads nothing of it.
READ_SECONDS = 20


class Connection(H11Protocol):
    """A connection of uvicorn with time limits, and with answers to clients that have sent all they will."""

    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer(HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_refused = self._is_refused
        super().data_received(data)
        if was_refused and not self._is_refused:  # all of it has arrived
            self._stop_timer()
        if self.conn.their_state is h11.IDLE:  # a part of the next request's headers
            self._start_timer(HEADER_SECONDS)
        elif not self._is_refused:
            self._stop_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_refused:
            self._start_timer(REFUSED_SECONDS)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open for the answer."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self.loop.call_later(HALF_CLOSED_SECONDS, self.transport.close)
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    @property
    def _is_refused(self) -> bool:
        """Whether the request is answered, and not all of it has arrived."""
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _start_timer(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(seconds, self._end)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

    def _expect_reader(self) -> None:
        unread = self.transport.get_write_buffer_size()

        def check() -> None:
            if self.transport.get_write_buffer_size() < unread:
                self._expect_reader()
            else:
                self.transport.abort()

        self._write_timer = self.loop.call_later(READ_SECONDS, check)
