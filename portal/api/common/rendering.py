"""JSON answers."""

from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import BaseRenderer

from provisioning.common.json_text import encoded


class Rendered(bytes):
    """A body that is written already."""


def written(data: Any) -> Rendered:
    """Write a body before its time, for who has to look at it."""
    return Rendered(encoded(data))


class JSONRenderer(BaseRenderer):
    """Writes JSON in UTF-8; UUIDs become text with dashes, no other type is guessed."""

    media_type = "application/json"
    format = "json"
    charset = None
    render_style = "binary"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the bytes of the body; None is an empty one."""
        if isinstance(data, Rendered):
            return data
        return b"" if data is None else encoded(data)
