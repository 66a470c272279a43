"""The bits of an image: uploaded and downloaded as streams, with constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.conf import settings
from django.http.response import HttpResponseBase
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.image.views import ImageView
from portal.common import streams
from provisioning.common.errors import InvalidInputError, TooLargeError
from provisioning.images import selectors, services
from provisioning.images.errors import InterruptedUploadError, NoImageDataError

DATA_TYPE = "application/octet-stream"
RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})", re.ASCII)


class ImageFile(ImageView):
    """``/image/v2/images/{id}/file``."""

    rules = {"GET": "image:images:download", "PUT": "image:images:upload"}

    def put(self, request: Request, image_id: str) -> Response:
        """Take the data of a queued image; 204 when it is whole, safe and what it was declared to be."""
        if str(request.content_type).partition(";")[0].strip().lower() != DATA_TYPE:
            raise UnsupportedMediaType(str(request.content_type))
        size = _announced(request)
        services.upload(self.context, image_id, _body(request), expected_size=size)
        return Response(status=204)

    def get(self, request: Request, image_id: str) -> HttpResponseBase:
        """Send the data, or the range of it that is asked for; 204 before there is any."""
        image = selectors.image_for(self.context, image_id)
        try:
            path = selectors.data_for(self.context, image)
            file = path.open("rb")
        except (NoImageDataError, FileNotFoundError):
            return Response(status=204)
        size = path.stat().st_size if image.size is None else image.size
        part = _range(request, size)
        if part is None and "Range" in request.headers and RANGE.fullmatch(request.headers["Range"]):
            file.close()
            return Response(status=416, headers={"Content-Range": f"bytes */{size}"})
        first, last = part or (0, size - 1)
        file.seek(first)
        response = streams.file_response(request._request, file, last - first + 1)
        response["Accept-Ranges"] = "bytes"
        if part is not None:
            response.status_code = 206
            response["Content-Range"] = f"bytes {first}-{last}/{size}"
        elif image.checksum:
            response["Content-MD5"] = image.checksum
        return response


def _announced(request: Request) -> int | None:
    """Return the size that the client says the data has, in bytes; refuse one that is too large before it is sent."""
    length = request.headers.get("Content-Length", "")
    text = request.headers.get("X-Openstack-Image-Size", "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= 18):
        msg = f"X-Openstack-Image-Size must be a whole number of bytes: {text[:40]}"
        raise InvalidInputError(msg, field="size")
    sizes = [int(value) for value in (length, text) if value.isdigit()]
    if sizes and max(sizes) > settings.MAX_IMAGE_SIZE:
        msg = f"The image is larger than the {settings.MAX_IMAGE_SIZE} bytes that are allowed."
        raise TooLargeError(msg)
    return int(text) if text else None


def _body(request: Request) -> Iterator[bytes]:
    """Yield the data as it arrives; InterruptedUploadError when the client goes away."""
    try:
        yield from streams.body_of(request._request)
    except (streams.BodyInterruptedError, OSError) as error:
        msg = "The upload was interrupted: not all of the data arrived."
        raise InterruptedUploadError(msg) from error


def _range(request: Request, size: int) -> tuple[int, int] | None:
    """Return first and last byte of one range that can be satisfied (RFC 9110 section 14.2), else None."""
    found = RANGE.fullmatch(request.headers.get("Range", ""))
    if found is None or not (found["first"] or found["last"]):
        return None
    if not found["first"]:
        first, last = max(size - int(found["last"]), 0), size - 1
    else:
        first, last = int(found["first"]), min(int(found["last"] or size - 1), size - 1)
    return (first, last) if first <= last else None
