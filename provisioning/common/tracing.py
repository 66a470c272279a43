"""The request id of whatever runs in this thread or task, for log lines."""

import contextvars
import logging

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")


class RequestIdFilter(logging.Filter):
    """Puts the current request id on every log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add ``request_id``; never drops a record."""
        record.request_id = request_id.get()
        return True
