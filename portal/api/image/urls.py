"""Image service API under ``/image``; a slash at the end makes no difference."""

from django.urls import URLPattern, URLResolver, re_path

from portal.api.common.views import NoSuchResource
from portal.api.image import members, views
from portal.api.image.files import ImageFile

IMAGE = r"^/v2/images/(?P<image_id>[^/]+)"

urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"^/?$", views.Versions.as_view()),
    re_path(r"^/versions/?$", views.Versions.as_view(status=200)),
    re_path(r"^/v2/?$", views.Versions.as_view()),
    re_path(r"^/v2/images/?$", views.Images.as_view()),
    re_path(rf"{IMAGE}/?$", views.ImageDetail.as_view()),
    re_path(rf"{IMAGE}/file/?$", ImageFile.as_view()),
    re_path(rf"{IMAGE}/members/?$", members.Members.as_view()),
    re_path(rf"{IMAGE}/members/(?P<member_id>[^/]+)/?$", members.MemberDetail.as_view()),
    re_path(rf"{IMAGE}/actions/deactivate/?$", views.Deactivate.as_view()),
    re_path(rf"{IMAGE}/actions/reactivate/?$", views.Reactivate.as_view()),
    re_path(rf"{IMAGE}/tags/(?P<tag>[^/]+)/?$", views.ImageTag.as_view()),
    re_path(r"^/v2/schemas/(?P<name>[^/]+)/?$", views.PublishedSchema.as_view()),
    re_path(r"^/v2/info/import/?$", views.ImportInfo.as_view()),
    re_path(r"^/v2/info/stores/?$", views.StoresInfo.as_view()),
    re_path(r"", NoSuchResource.of("image")),
]
