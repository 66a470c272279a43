"""Transfer of firmware states over HTTP: hosts send the states of servers that they shelve, and fetch the states of
unshelved servers.
"""

import uuid

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from compute_agent.contract.firmware_state import MOST_BYTES, TOO_LARGE
from portal.agents.callers import answer, whole_body
from provisioning.compute.host_link import firmware_states


@csrf_exempt
@require_http_methods(["GET", "PUT"])
def firmware_state(request: HttpRequest, instance_id: uuid.UUID, digest: str) -> HttpResponse:
    """``PUT``: store the packed state of a server that the calling host was commanded to shelve; ``GET``: send the
    state of a server that it was commanded to build.

    404 for any other state, 410 for one that cannot be decrypted.
    """

    def put(host_id: uuid.UUID) -> HttpResponse:
        firmware_states.store(host_id, instance_id, digest, whole_body(request, MOST_BYTES, TOO_LARGE))
        return HttpResponse(status=204)

    def get(host_id: uuid.UUID) -> HttpResponse:
        packed = firmware_states.packed_state(host_id, instance_id, digest)
        return HttpResponse(packed, content_type="application/octet-stream")

    return answer(request, "compute", put if request.method == "PUT" else get)
