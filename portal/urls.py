"""Root routing: every face under its own prefix, all on one port."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from portal.api.openapi.views import OpenApiJson, OpenApiYaml

urlpatterns: list[URLPattern | URLResolver] = [
    path("compute", include("portal.api.compute.urls")),
    path("identity", include("portal.api.identity.urls")),
    path("image", include("portal.api.image.urls")),
    path("network", include("portal.api.network.urls")),
    path("", include("portal.dashboard.urls")),
    path("admin/", admin.site.urls),
    path("", include("portal.agents.urls")),
    path("", include("portal.metrics.urls")),
    path("openapi.json", OpenApiJson.as_view(), name="openapi"),
    path("openapi.yaml", OpenApiYaml.as_view()),
]
handler500 = "portal.dashboard.errors.server_error"
