"""The data of images: uploaded, staged and downloaded as streams, with constant memory, and partial downloads: one
``Range``, or the ``Content-Range`` that old clients send instead.
"""

import re
from collections.abc import Iterator

from django.conf import settings
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException, UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.image.dialect import ImageView
from portal.web import streams, upload_shares
from provisioning.common.errors import InvalidInputError, TooLargeError
from provisioning.images import selectors, services
from provisioning.images.errors import InterruptedUploadError, NoImageDataError

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


DATA_TYPE = "application/octet-stream"


class DataView(ImageView):
    """Base of the views that receive data."""

    def fault(self, error: Exception) -> Response:
        """Add the required content type to the error for an unsupported content type."""
        response = super().fault(error)
        if isinstance(error, UnsupportedMediaType):
            response.data["message"] = f"The data must be sent as {DATA_TYPE}."
        return response


class ImageFile(DataView):
    """``/image/v2/images/{id}/file``."""

    rules = {"GET": "download_image", "PUT": "upload_image"}

    def put(self, request: Request, image_id: str) -> None:
        """Upload the data of a queued image; 204 if it is complete, safe and of the declared format."""
        size = _announced(request)
        check_store(request.headers.get("X-Image-Meta-Store"))
        with upload_shares.share_of(self.context):
            services.upload(self.context, image_id, _body(request), expected_size=size)

    def get(self, request: Request, image_id: str) -> HttpResponseBase:
        """Send the data, or the requested range of it; 204 if there is none."""
        for name in request.query_params.get("prefer", "").split(","):
            check_store(name.strip() or None, field="prefer")
        image = selectors.image_for(self.context, image_id)
        try:
            path = selectors.data_for(self.context, image)
            size = path.stat().st_size if image.size is None else image.size
            part = part_of(request, size)
            file = path.open("rb")
        except (NoImageDataError, FileNotFoundError):
            return Response(status=204)
        except UnsatisfiableRangeError as error:
            refusal = self.fault(error)
            refusal["Content-Range"] = f"bytes */{size}"
            return refusal
        first, last = part or (0, size - 1)
        file.seek(first)
        response = streams.file_response(request._request, file, last - first + 1)
        response["Accept-Ranges"] = "bytes"
        if part is not None:
            response.status_code = 206
            response["Content-Range"] = f"bytes {first}-{last}/{size}"
        if image.checksum:
            response["Content-MD5"] = image.checksum
        return response


class ImageStage(DataView):
    """``/image/v2/images/{id}/stage``: data that waits for its import."""

    rules = {"PUT": "modify_image"}

    def put(self, request: Request, image_id: str) -> None:
        """Store the data of a queued image, whose status becomes ``uploading``."""
        with upload_shares.share_of(self.context):
            services.stage(self.context, image_id, _body(request), expected_size=_announced(request))


def check_store(name: str | None, *, field: str = "X-Image-Meta-Store") -> None:
    """Raise InvalidInputError for an unknown store."""
    if name is not None and name != settings.IMAGE_STORE_ID:
        raise InvalidInputError(f"The selected store {name[:80]} is not available on this node.", field=field)


def _announced(request: Request) -> int | None:
    """Return the size in bytes that the client declares, or None. Data that is too large is rejected before the client
    sends it.

    Raises TooLargeError, InvalidInputError for a malformed size, and UnsupportedMediaType for a content type other than
    ``DATA_TYPE``.
    """
    if str(request.content_type).partition(";")[0].strip().lower() != DATA_TYPE:
        raise UnsupportedMediaType(str(request.content_type))
    length = request.headers.get("Content-Length", "")
    text = request.headers.get("X-Openstack-Image-Size", "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInputError(f"X-Openstack-Image-Size must be a whole number of bytes: {text[:40]}", field="size")
    sizes = [int(value) for value in (length, text) if value.isdigit()]
    if sizes and max(sizes) > settings.MAX_IMAGE_SIZE:
        raise TooLargeError(f"The image is larger than the {settings.MAX_IMAGE_SIZE} bytes that are allowed.")
    return int(text) if text else None


def _body(request: Request) -> Iterator[bytes]:
    """Yield the data as it arrives. Raises InterruptedUploadError if the client disconnects or is too slow."""
    try:
        yield from streams.body_of(request._request)
    except streams.BodyInterruptedError as error:
        raise InterruptedUploadError(str(error)) from error
