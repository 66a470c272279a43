"""Rendering of JSON responses."""

from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import BaseRenderer

from provisioning.common.values.json_text import encoded


class Rendered(bytes):
    """A body that is already serialized."""


def written(data: Any) -> Rendered:
    """Serialize a body early, for callers that inspect it."""
    return Rendered(encoded(data))


class JSONRenderer(BaseRenderer):
    """Renders JSON in UTF-8; UUIDs become text with dashes, other types are not converted."""

    media_type = "application/json"
    format = "json"
    charset = None
    render_style = "binary"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the bytes of the body; None gives an empty one."""
        if isinstance(data, Rendered):
            return data
        return b"" if data is None else encoded(data)
