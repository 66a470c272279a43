"""The API browser: Swagger UI for the OpenAPI document, with a token for the session's project."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse, JsonResponse

from portal.common.sign_in import short_token
from portal.dashboard.frame.pages import Page

LIFETIME = timedelta(minutes=15)
"""Lifetime of a token of this page; the page renews it automatically."""
SERVICES = (
    ("compute", "Compute"),
    ("image", "Image"),
    ("identity", "Identity"),
    ("network", "Network"),
    ("volume", "Block Storage"),
)
VERSIONS = ("2.1", "2.26", "2.37", "2.53", "2.60", "2.79", "2.90", "2.96")
"""Microversions that the page suggests: the first, the last, and the versions that clients use most."""


class TryIt(Page):
    """``/api/``: every operation, with a form to send it."""

    section = "api_access"
    rule = "identity:get_auth_catalog"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the frame; the script fetches the document of the selected service."""
        context = {
            "services": SERVICES,
            "versions": VERSIONS,
            "newest": VERSIONS[-1],
            "minutes": LIFETIME.seconds // 60,
        }
        return self.page("dashboard/api_access/try_it.html", context)


class TryItToken(Page):
    """``POST /api/token/``: a token for the page's script, in the response body only."""

    http_method_names = ["post"]
    rule = "identity:get_auth_catalog"

    def post(self, request: HttpRequest) -> HttpResponse:
        """Issue a token that expires after a quarter of an hour or with the session."""
        issued = short_token(request, LIFETIME)
        body = {"token": issued.value, "expires_at": issued.data.expires_at.isoformat()}
        return JsonResponse(body, headers={"Cache-Control": "no-store"})
