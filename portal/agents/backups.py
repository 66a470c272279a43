"""Transfer of backup data over HTTP: a host sends the chunks of a new backup, and fetches the chunks of a backup to
restore.
"""

import re
import uuid

import msgspec
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from compute_agent.disk_formats.extents import LONGEST
from portal.agents.callers import answer, whole_body
from provisioning.common.errors import InvalidInputError
from provisioning.volumes.backups import backup_transfers

LONGEST_MANIFEST = 64 << 20
"""Maximum bytes of a manifest. A backup has 68 bytes in its manifest for each 8 MiB of data."""
TOO_LARGE = "This part is too large."


@csrf_exempt
@require_http_methods(["GET", "PUT"])
def chunk(request: HttpRequest, backup_id: uuid.UUID, number: int, digest: str) -> HttpResponse:
    """``PUT``: store a chunk of a backup that the calling host was commanded to create. ``GET``: send a chunk of a
    backup that the host was commanded to restore.

    404 for any other chunk, 410 for a damaged one.
    """
    place = backup_transfers.Place(backup_id, number, digest)

    def put(host_id: uuid.UUID) -> HttpResponse:
        body = whole_body(request, LONGEST, TOO_LARGE)
        backup_transfers.store_chunk(host_id, place, body, _progress(request))
        return HttpResponse(status=204)

    def get(host_id: uuid.UUID) -> HttpResponse:
        data = backup_transfers.chunk_to_get(host_id, place, _progress(request))
        return HttpResponse(data, content_type="application/octet-stream")

    return answer(request, "volume", put if request.method == "PUT" else get)


@csrf_exempt
@require_http_methods(["GET", "PUT"])
def manifest(request: HttpRequest, backup_id: uuid.UUID) -> HttpResponse:
    """``PUT``: store the list of chunks of a backup, after the host has sent all chunks. ``GET``: send the list of a
    backup's chunks.
    """

    def put(host_id: uuid.UUID) -> HttpResponse:
        try:
            sent = msgspec.json.decode(
                whole_body(request, LONGEST_MANIFEST, TOO_LARGE), type=backup_transfers.SentManifest
            )
        except msgspec.MsgspecError as error:
            raise InvalidInputError("This is not a list of parts.") from error
        backup_transfers.store_manifest(host_id, backup_id, sent)
        return HttpResponse(status=204)

    def get(host_id: uuid.UUID) -> HttpResponse:
        document = backup_transfers.manifest_to_get(host_id, backup_id)
        return HttpResponse(msgspec.json.encode(document), content_type="application/json")

    return answer(request, "volume", put if request.method == "PUT" else get)


def _progress(request: HttpRequest) -> tuple[int, int]:
    """Return the done and total bytes of the progress header; zeros if it is malformed."""
    match = re.fullmatch(r"([0-9]{1,18})/([0-9]{1,18})", request.headers.get("X-Novella-Progress", ""), re.ASCII)
    return (int(match[1]), int(match[2])) if match else (0, 0)
