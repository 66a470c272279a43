"""The version documents of the Image service."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.links import endpoint
from portal.api.image.base import ImageView

MINOR_VERSIONS = (15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
"""Of v2, the newest first: 2.1 brought members, 2.2 protected properties, 2.3 deactivation, 2.5 shared and community
images, 2.6 imports, 2.7 hidden images and the multihash, 2.8 named stores, of which there is one, 2.12 the tasks of an
image.  What is not there: the cache (2.14, 2.16, 2.18) and locations as resources (2.17).
"""


class Versions(ImageView):
    """``GET /image``: the versions there are, with Glance's status 300; ``/image/versions`` says the same with 200."""

    public = True
    status = 300

    def get(self, request: Request) -> Response:
        """List the versions."""
        link = {"rel": "self", "href": f"{endpoint(request, 'image')}/v2/"}
        return Response(
            {
                "versions": [
                    {"id": f"v2.{minor}", "status": "SUPPORTED" if index else "CURRENT", "links": [link]}
                    for index, minor in enumerate(MINOR_VERSIONS)
                ]
            },
            status=self.status,
        )
