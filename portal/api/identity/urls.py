"""Identity API v3 under ``/identity``; a slash at the end makes no difference."""

from django.urls import URLPattern, URLResolver, re_path

from portal.api.common.views import NoSuchResource

urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"", NoSuchResource.of("identity")),
]
