"""Partial downloads: one ``Range``, or the ``Content-Range`` that old clients send instead."""

import re

from rest_framework.exceptions import APIException
from rest_framework.request import Request

from provisioning.common.errors import InvalidInputError

RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})", re.ASCII)
CONTENT_RANGE = re.compile(r"bytes (?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})/(?P<size>[0-9]{1,18}|\*)", re.ASCII)


class UnsatisfiableRangeError(APIException):
    """The requested range does not exist (416)."""

    status_code = 416


def part_of(request: Request, size: int) -> tuple[int, int] | None:
    """Return the first and last byte of the requested range, or None for the whole (RFC 9110 section 14.2).

    Raises InvalidInputError for several ranges, UnsatisfiableRangeError for an invalid or unsatisfiable one.
    """
    range_header = request.headers.get("Range")
    if range_header is not None:
        if "," in range_header:
            msg = "Requests with multiple ranges are not supported. Send a request for each range."
            raise InvalidInputError(msg, field="Range")
        return _range(range_header, size)
    old = request.headers.get("Content-Range")
    return None if old is None else _content_range(old, size)


def _range(range_header: str, size: int) -> tuple[int, int]:
    found = RANGE.fullmatch(range_header.strip())
    if found is None or not (found["first"] or found["last"]):
        raise UnsatisfiableRangeError("Invalid Range header.")
    if not found["first"]:
        first, last = max(size - int(found["last"]), 0), size - 1
    else:
        first, last = int(found["first"]), min(int(found["last"] or size - 1), size - 1)
    return _within(first, last, size, "Range")


def _content_range(range_header: str, size: int) -> tuple[int, int]:
    found = CONTENT_RANGE.fullmatch(range_header.strip())
    if found is None:
        raise UnsatisfiableRangeError("Invalid Content-Range header.")
    if int(found["last"]) >= size:
        msg = (
            f"Invalid stop position in Content-Range header. The stop position MUST be in the inclusive range "
            f"[0, {size - 1}]."
        )
        raise UnsatisfiableRangeError(msg)
    return _within(int(found["first"]), int(found["last"]), size, "Content-Range")


def _within(first: int, last: int, size: int, header: str) -> tuple[int, int]:
    if first > last or first >= size:
        msg = (
            f"Invalid start position in {header} header. Start position MUST be in the inclusive range [0, {size - 1}]."
        )
        raise UnsatisfiableRangeError(msg)
    return first, last
