"""Root routing: every package of the portal has its own prefix, all on one port."""

from django.contrib import admin
from django.urls import include, path

from portal.api.openapi.document import OpenApiJson, OpenApiYaml
from portal.common.http.routing import by_service

SERVICES = {
    "compute": "portal.api.compute.urls",
    "ec2": "portal.api.ec2.urls",
    "identity": "portal.api.identity.urls",
    "image": "portal.api.image.urls",
    "network": "portal.api.network.urls",
    "volume": "portal.api.volume.urls",
}
urlpatterns = by_service(
    SERVICES,
    others=[
        path("", include("portal.dashboard.urls")),
        path("admin/", admin.site.urls),
        path("", include("portal.agents.urls")),
        path("", include("portal.metrics.urls")),
        path("openapi.json", OpenApiJson.as_view(), name="openapi"),
        path("openapi.yaml", OpenApiYaml.as_view()),
    ],
)
handler400 = "portal.api.common.faults.bad_request"
handler500 = "portal.dashboard.errors.server_error"
