"""Identity API v3 under ``/identity``; a slash at the end makes no difference."""

from django.urls import URLPattern, URLResolver, re_path

from portal.api.common.views import NoSuchResource, ServiceView
from portal.api.identity import own, records, services, tokens, versions

_V3: dict[str, type[ServiceView]] = {
    "": versions.VersionView,
    "/auth/tokens": tokens.TokensView,
    "/auth/projects": own.OwnProjectsView,
    "/auth/domains": own.OwnDomainsView,
    "/auth/catalog": own.CatalogView,
    "/users": records.UsersView,
    "/users/(?P<user_id>[^/]+)": records.UserView,
    "/users/(?P<user_id>[^/]+)/projects": records.UserProjectsView,
    "/users/(?P<user_id>[^/]+)/password": own.PasswordView,
    "/projects": records.ProjectsView,
    "/projects/(?P<project_id>[^/]+)": records.ProjectView,
    "/domains": records.DomainsView,
    "/domains/(?P<domain_id>[^/]+)": records.DomainView,
    "/roles": records.RolesView,
    "/roles/(?P<role_id>[^/]+)": records.RoleView,
    "/role_assignments": records.RoleAssignmentsView,
    "/services": services.ServicesView,
    "/services/(?P<service_id>[^/]+)": services.OneServiceView,
    "/endpoints": services.EndpointsView,
    "/endpoints/(?P<endpoint_id>[^/]+)": services.EndpointView,
    "/regions": services.RegionsView,
    "/regions/(?P<region_id>[^/]+)": services.RegionView,
}

urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"^/?\Z", versions.VersionsView.as_view()),
    *(re_path(rf"^/v3{path}/?\Z", view.as_view()) for path, view in _V3.items()),
    re_path(r"", NoSuchResource.of("identity")),
]
