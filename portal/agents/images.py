"""Transfer of image data over HTTP: hosts fetch it for a build, and send it after a snapshot."""

import uuid
from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from portal.agents.callers import calling_host, text_response
from portal.common.http.error_status import status_of
from portal.web.streams import BodyInterruptedError, body_of, file_response
from provisioning.common.context import cloud_in_project
from provisioning.common.errors import NotAuthenticatedError, NotFoundError, NovellaError
from provisioning.compute.disks.snapshot_images import is_ready
from provisioning.compute.host_link import image_transfers
from provisioning.images import selectors as images
from provisioning.images import services as uploads
from provisioning.images.errors import InterruptedUploadError
from provisioning.volumes.host_link import image_transfers as of_volumes

NO_IMAGE = "The host has no command that needs this image."


@csrf_exempt
@require_http_methods(["GET", "HEAD", "PUT"])
def image_bits(request: HttpRequest, instance_id: uuid.UUID, image_id: uuid.UUID) -> HttpResponseBase:
    """``GET``: send the data of an image that the calling host needs for a command. ``PUT``: store the data of an image
    that the host was commanded to create.

    ``instance_id`` is the instance or volume of the command; for the image of a volume, it is the image's own id. 404
    for any other image.
    """
    try:
        host = calling_host(request)
    except NotAuthenticatedError as error:
        return text_response(401, error.message)
    carry = _store if request.method == "PUT" else _send
    try:
        return carry(request, host.id, instance_id, image_id)
    except InterruptedUploadError as error:
        return text_response(503, error.message)
    except NovellaError as error:  # hosts do not retry a status below 500, except 401 and 409
        return text_response(status_of(error, "image") or 503, error.message)


def _send(request: HttpRequest, host_id: uuid.UUID, instance_id: uuid.UUID, image_id: uuid.UUID) -> HttpResponseBase:
    try:
        image = image_transfers.image_to_get(host_id, instance_id, image_id)
    except NotFoundError:
        image = of_volumes.image_to_get(host_id, instance_id, image_id)
    try:
        bits = images.open_data(image).open("rb")
    except FileNotFoundError as error:
        raise NotFoundError(NO_IMAGE) from error
    return file_response(request, bits, image.size or 0)


def _store(request: HttpRequest, host_id: uuid.UUID, instance_id: uuid.UUID, image_id: uuid.UUID) -> HttpResponseBase:
    """Store the data as it arrives. Data that is already stored is skipped: the previous response was lost."""
    try:
        image = image_transfers.image_to_send(host_id, instance_id, image_id)
    except NotFoundError:
        image = of_volumes.image_to_send(host_id, instance_id, image_id)
    if not is_ready(image.id):
        length = request.headers.get("Content-Length", "")
        size = int(length) if length.isascii() and length.isdigit() and len(length) < 19 else None
        uploads.upload(cloud_in_project(image.project_id), image.id, _body(request), expected_size=size)
    return HttpResponse(status=204)


def _body(request: HttpRequest) -> Iterator[bytes]:
    try:
        yield from body_of(request)
    except BodyInterruptedError as error:
        raise InterruptedUploadError(str(error)) from error
