"""Log filters for messages that are not errors."""

import logging


class HealthCheckFilter(logging.Filter):
    """Drops Django's message about a 503 of ``/healthz``, which is normal while a cloud starts."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        return getattr(request, "path", "") != "/healthz" or getattr(record, "status_code", 0) != 503
