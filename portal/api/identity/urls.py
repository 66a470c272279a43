"""Identity API v3 and v2.0 under ``/identity``; a trailing slash is optional."""

from django.urls import re_path

from portal.api.frame import NoSuchResource, ServiceView
from portal.api.identity import limits, trusts, v2, versions
from portal.api.identity.auth import tokens
from portal.api.identity.catalog import endpoint_groups, services
from portal.api.identity.credentials import application_credentials, credentials, ec2
from portal.api.identity.directory import domains, projects, users
from portal.api.identity.roles import assignments, roles
from portal.common.http.routing import by_prefix

_V3: dict[str, type[ServiceView]] = {
    "": versions.V3,
    **tokens.ROUTES,
    **users.ROUTES,
    **application_credentials.ROUTES,
    **ec2.ROUTES,
    **credentials.ROUTES,
    **projects.ROUTES,
    **domains.ROUTES,
    **roles.ROUTES,
    "/role_assignments": assignments.RoleAssignmentsView,
    **assignments.GRANTS,
    **trusts.ROUTES,
    **services.ROUTES,
    **endpoint_groups.ROUTES,
    **endpoint_groups.FILTERS,
    **limits.ROUTES,
}

_V2: dict[str, type[ServiceView]] = {
    "": v2.VERSION,
    "/extensions": v2.EXTENSIONS,
    "/tokens": v2.TokensView,
    **v2.TOKEN,
    "/tenants": v2.TenantsView,
}

urlpatterns = by_prefix(
    [
        re_path(r"^/?\Z", versions.VERSIONS.as_view()),
        *(re_path(rf"^/v3{path}/?\Z", view.as_view()) for path, view in _V3.items()),
        *(re_path(rf"^/v2\.0{path}/?\Z", view.as_view()) for path, view in _V2.items()),
        re_path(r"", NoSuchResource.of("identity")),
    ]
)
