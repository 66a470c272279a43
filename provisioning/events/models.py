"""The event log."""

from django.db import models


class Event(models.Model):
    """An event, appended in the transaction of the change that it describes.

    ``topic`` determines who is woken: ``project:<uuid>`` pages and clients, ``host:<uuid>`` the web process with the
    link of that agent, ``everybody`` the pages of all projects, ``operators`` their lists of hosts and migrations,
    ``reply:<uuid>`` a caller that waits for a host's answer, ``user:<uuid>`` the pages of one user, ``auth`` every open
    connection (a token or a role was revoked).
    """

    topic = models.CharField(max_length=80)
    kind = models.CharField(max_length=64)
    payload = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        indexes = [models.Index(fields=["topic", "id"], name="event_topic_id")]

    def __str__(self) -> str:
        return f"{self.id} {self.topic} {self.kind}"
