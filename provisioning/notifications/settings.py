"""Notifications and metrics."""

from provisioning.common.environment import integer, patterns, text, web_address

NOTIFICATIONS = patterns("NOVELLA_NOTIFICATIONS", ["all", "-instance.update"])
"""Which [notifications](notifications.md) are sent: event types with ``*``, ``all``, ``none``; a ``-`` in front
excludes types.
"""
NOTIFICATION_WEBHOOK = web_address("NOVELLA_NOTIFICATION_WEBHOOK")
"""Address to which notifications are posted."""
NOTIFICATION_WEBHOOK_SECRET = text("NOVELLA_NOTIFICATION_WEBHOOK_SECRET", "")
"""Key that signs each posted notification; recommended."""
NOTIFICATION_WEBHOOK_TIMEOUT = integer("NOVELLA_NOTIFICATION_WEBHOOK_TIMEOUT", 10, 1, 60)
"""Seconds that the webhook may take to answer."""
NOTIFICATION_RETENTION = integer("NOVELLA_NOTIFICATION_RETENTION", 86_400, 60, 2_592_000)
"""Seconds that a notification is kept while the webhook does not accept it."""
METRICS_TOKEN = text("NOVELLA_METRICS_TOKEN", "")
"""The token with which Prometheus reads [the metrics](operator-guide.md#metrics); without it only operators can read
them.
"""
