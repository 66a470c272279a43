"""URLs of launch templates and snippets."""

from django.urls import path

from portal.dashboard.launch_templates import snippets, views

_TEMPLATE = "launch-templates/<uuid:identity>/"
urlpatterns = [
    path("launch/t/<slug:slug>/", views.LaunchLink.as_view(), name="launch_link"),
    path("launch/t/<slug:slug>/quote/", views.LinkQuote.as_view(), name="launch_link_quote"),
    path("launch-templates/", views.TemplateList.as_view(), name="launch_templates"),
    path("launch-templates/create/", views.TemplateCreate.as_view(), name="launch_template_create"),
    path(_TEMPLATE, views.TemplateDetail.as_view(), name="launch_template"),
    path(f"{_TEMPLATE}edit/", views.TemplateEdit.as_view(), name="launch_template_edit"),
    path(f"{_TEMPLATE}delete/", views.TemplateDelete.as_view(), name="launch_template_delete"),
    path(f"{_TEMPLATE}versions/create/", views.VersionCreate.as_view(), name="launch_template_version_create"),
    path(
        f"{_TEMPLATE}versions/<int:number>/default/",
        views.VersionDefault.as_view(),
        name="launch_template_version_default",
    ),
    path(
        f"{_TEMPLATE}versions/<int:number>/delete/",
        views.VersionDelete.as_view(),
        name="launch_template_version_delete",
    ),
    path("snippets/", snippets.SnippetList.as_view(), name="snippets"),
    path("snippets/create/", snippets.SnippetCreate.as_view(), name="snippet_create"),
    path("snippets/<uuid:identity>/edit/", snippets.SnippetEdit.as_view(), name="snippet_edit"),
    path("snippets/<uuid:identity>/delete/", snippets.SnippetDelete.as_view(), name="snippet_delete"),
]
