"""Addresses of the services, and configuration files for programs."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.text import slugify

from portal.common.http.public_url import public_url
from portal.common.sign_in import short_token
from portal.dashboard.copy_as.client_files import CLOUD, auth_url, password_files
from portal.dashboard.frame.pages import Page
from provisioning.identity.selectors.catalog import catalog_for

EXAMPLES = (
    ("Show my user and project", "token issue"),
    ("List images, flavors and networks", "image list"),
    ("Launch", "server create --image IMAGE --flavor FLAVOR --network NETWORK --wait NAME"),
    ("List servers", "server list"),
    ("Show limits and usage", "limits show --absolute"),
    ("Create an application credential", "application credential create NAME"),
)

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


class ApiAccess(Page):
    """How to use this project with programs."""

    section = "api_access"
    rule = "identity:get_auth_catalog"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show endpoints, files and example commands."""
        endpoints = [
            {"service": service, "url": endpoint["url"], "region": endpoint["region"]}
            for service in catalog_for(self.context.project_id, public_url=public_url(request))
            for endpoint in service["endpoints"]
            if endpoint["interface"] == "public"
        ]
        context = {
            "endpoints": endpoints,
            "regions": len({endpoint["region"] for endpoint in endpoints}),
            "auth_url": auth_url(request),
            "files": password_files(request, self.context),
            "openrc_name": f"{slugify(self.context.project_name) or 'project'}-openrc.sh",
            "examples": [(words, f"openstack --os-cloud {CLOUD} {command}") for words, command in EXAMPLES],
            "can_list_ec2": self.allows("identity:ec2_list_credentials", {"user_id": self.context.user_id}),
            "can_make_credential": self.allows(
                "identity:create_application_credential", {"user_id": self.context.user_id}
            ),
        }
        return self.page("dashboard/api_access/page.html", context)


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
