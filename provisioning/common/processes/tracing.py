"""The request id of the current thread or task, for logging."""

import contextvars
import logging

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")


class RequestIdFilter(logging.Filter):
    """Adds the current request id to every log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add ``request_id``; never drops a record."""
        record.request_id = request_id.get()
        return True
