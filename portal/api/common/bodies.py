"""Parsing of JSON requests, limited in size and nesting, and rendering of JSON responses."""

from collections.abc import Mapping
from typing import IO, Any

import orjson
from django.conf import settings
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from portal.web.streams import MOST_FROM_STRANGERS
from provisioning.common.errors import InvalidInputError, TooLargeError
from provisioning.common.values.json_text import encoded

DEEPEST = 32
"""Maximum nesting depth of lists and objects."""
MOST_VALUES = 10_000
"""Maximum number of values and names in a body, which limits the cost of schema validation."""


class JSONParser(BaseParser):
    """Parses a JSON body.

    At most ``DATA_UPLOAD_MAX_MEMORY_SIZE`` bytes, or ``MOST_FROM_STRANGERS`` without a token. Raises InvalidInputError
    or TooLargeError.
    """

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        view = (parser_context or {}).get("view")
        known = view is None or hasattr(view, "context")
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE if known else MOST_FROM_STRANGERS
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise TooLargeError(f"The request body is larger than {limit} bytes.")
        return read_json(body)


def read_json(body: bytes) -> Any:
    """Return the value. Raises InvalidInputError for invalid JSON or UTF-8, excessive nesting or size, and NUL
    characters.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError("Malformed request body: it is not valid JSON.") from error
    level: list[Any] = [value]
    values = 1
    for _ in range(DEEPEST + 1):
        following: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                following.extend(item)
                following.extend(item.values())
            elif isinstance(item, list):
                following.extend(item)
            elif isinstance(item, str) and "\0" in item:
                raise InvalidInputError("Malformed request body: it has a NUL character in it.")
        if not following:
            return value
        values += len(following)
        if values > MOST_VALUES:
            raise InvalidInputError(f"Malformed request body: it has more than {MOST_VALUES} values in it.")
        level = following
    raise InvalidInputError(f"Malformed request body: it nests deeper than {DEEPEST} levels.")


class JSONNegotiation(BaseContentNegotiation):
    """Responds in JSON, regardless of ``Accept``. A body without a content type is read as JSON; other types are
    rejected.
    """

    def select_parser(self, request: Request, parsers: Any) -> BaseParser | None:
        """Return the parser for the body's type, or None (415)."""
        media_type = str(request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if media_type in {"", parser.media_type}), None)

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


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
