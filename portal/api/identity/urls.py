"""Identity API v3 and v2.0 under ``/identity``; a slash at the end makes no difference."""

from django.urls import URLPattern, URLResolver, re_path

from portal.api.common.views import NoSuchResource, ServiceView
from portal.api.identity import (
    access_rules,
    application_credentials,
    credentials,
    ec2,
    own,
    records,
    services,
    tokens,
    v2,
    versions,
)

_V3: dict[str, type[ServiceView]] = {
    "": versions.VersionView,
    "/auth/tokens": tokens.TokensView,
    "/auth/projects": own.OwnProjectsView,
    "/auth/domains": own.OwnDomainsView,
    "/auth/system": own.OwnSystemView,
    "/auth/catalog": own.CatalogView,
    "/users": records.UsersView,
    "/users/(?P<user_id>[^/]+)": records.UserView,
    "/users/(?P<user_id>[^/]+)/projects": records.UserProjectsView,
    "/users/(?P<user_id>[^/]+)/password": own.PasswordView,
    "/users/(?P<user_id>[^/]+)/application_credentials": application_credentials.ApplicationCredentialsView,
    "/users/(?P<user_id>[^/]+)/application_credentials/(?P<application_credential_id>[^/]+)": (
        application_credentials.ApplicationCredentialView
    ),
    "/users/(?P<user_id>[^/]+)/access_rules": access_rules.AccessRulesView,
    "/users/(?P<user_id>[^/]+)/access_rules/(?P<access_rule_id>[^/]+)": access_rules.AccessRuleView,
    "/users/(?P<user_id>[^/]+)/credentials/OS-EC2": ec2.Ec2CredentialsView,
    "/users/(?P<user_id>[^/]+)/credentials/OS-EC2/(?P<access>[^/]+)": ec2.Ec2CredentialView,
    "/credentials": credentials.CredentialsView,
    "/credentials/(?P<credential_id>[^/]+)": credentials.CredentialView,
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

_V2: dict[str, type[ServiceView]] = {
    "": v2.VersionView,
    "/extensions": v2.ExtensionsView,
    "/tokens": v2.TokensView,
    "/tokens/(?P<token_id>[^/]+)": v2.TokenView,
    "/tokens/(?P<token_id>[^/]+)/endpoints": v2.EndpointsView,
    "/tenants": v2.TenantsView,
}

urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"^/?\Z", versions.VersionsView.as_view()),
    *(re_path(rf"^/v3{path}/?\Z", view.as_view()) for path, view in _V3.items()),
    *(re_path(rf"^/v2\.0{path}/?\Z", view.as_view()) for path, view in _V2.items()),
    re_path(r"", NoSuchResource.of("identity")),
]
