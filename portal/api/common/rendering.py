"""JSON answers."""

from collections.abc import Mapping
from typing import Any

import orjson
from rest_framework.renderers import BaseRenderer


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
        return b"" if data is None else orjson.dumps(data)
