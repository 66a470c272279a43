"""Keeps out of the log what is no error."""

import logging


class HealthCheckFilter(logging.Filter):
    """Drops Django's line about a 503 of ``/healthz``: a cloud that starts is no error."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        return getattr(request, "path", "") != "/healthz" or getattr(record, "status_code", 0) != 503
