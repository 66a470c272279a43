"""The APIs to read and to try: Swagger UI over the OpenAPI document, with a token of the session's project."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse, JsonResponse

from portal.common.sign_in import short_token
from portal.dashboard.pages import Page

LIFETIME = timedelta(minutes=15)
"""How long a token of this page is good for; the page gets the next one itself."""
SERVICES = (
    ("compute", "Compute"),
    ("image", "Image"),
    ("identity", "Identity"),
    ("network", "Network"),
    ("volume", "Block Storage"),
)
VERSIONS = ("2.1", "2.26", "2.37", "2.53", "2.60", "2.79", "2.90", "2.96")
"""Microversions that the page offers beside any that is typed: the ends, and those that clients ask for most."""


class TryIt(Page):
    """``/api/``: every operation, with a form that sends it."""

    section = "api_access"
    rule = "identity:get_auth_catalog"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the frame; the script fetches the document of the service that is chosen."""
        context = {
            "services": SERVICES,
            "versions": VERSIONS,
            "newest": VERSIONS[-1],
            "minutes": LIFETIME.seconds // 60,
        }
        return self.page("dashboard/api_access/try_it.html", context)


class TryItToken(Page):
    """``POST /api/token/``: a token for the page's script, in the body alone."""

    http_method_names = ["post"]
    rule = "identity:get_auth_catalog"

    def post(self, request: HttpRequest) -> HttpResponse:
        """Give out a token that ends in a quarter of an hour, or with the session."""
        issued = short_token(request, LIFETIME)
        body = {"token": issued.value, "expires_at": issued.data.expires_at.isoformat()}
        return JsonResponse(body, headers={"Cache-Control": "no-store"})
