"""Root routing: every face under its own prefix, all on one port."""

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("portal.live.urls")),
    path("compute", include("portal.api.compute.urls")),
    path("identity", include("portal.api.identity.urls")),
    path("image", include("portal.api.image.urls")),
    path("network", include("portal.api.network.urls")),
]
