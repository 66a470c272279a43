"""URLs of the pages of users, projects and quotas."""

from django.urls import path

from portal.dashboard.identity import domains, groups, members, projects, roles, system, user_actions, users
from portal.dashboard.quotas import views as quotas

urlpatterns = [
    path("project/", projects.OwnProject.as_view(), name="own_project"),
    path("projects/", projects.ProjectList.as_view(), name="projects"),
    path("projects/create/", projects.ProjectCreate.as_view(), name="project_create"),
    path("projects/<uuid:project_id>/", projects.ProjectDetail.as_view(), name="project_page"),
    path("projects/<uuid:project_id>/edit/", projects.ProjectEdit.as_view(), name="project_edit"),
    path("projects/<uuid:project_id>/disable/", projects.ProjectSwitchOff.as_view(), name="project_disable"),
    path("projects/<uuid:project_id>/enable/", projects.ProjectSwitchOn.as_view(), name="project_enable"),
    path("projects/<uuid:project_id>/network/", projects.ProjectNetwork.as_view(), name="project_network"),
    path("projects/<uuid:project_id>/delete/", projects.ProjectDelete.as_view(), name="project_delete"),
    path("projects/<uuid:project_id>/quotas/", quotas.ProjectQuotas.as_view(), name="project_quotas"),
    path("projects/<uuid:project_id>/quotas/reset/", quotas.ProjectQuotasReset.as_view(), name="project_quotas_reset"),
    path("projects/<uuid:project_id>/members/add/", members.ProjectMemberAdd.as_view(), name="member_add"),
    path(
        "projects/<uuid:project_id>/members/<slug:kind>/<uuid:actor_id>/",
        members.ProjectMemberRoles.as_view(),
        name="member_roles",
    ),
    path(
        "projects/<uuid:project_id>/members/<slug:kind>/<uuid:actor_id>/remove/",
        members.ProjectMemberRemove.as_view(),
        name="member_remove",
    ),
    path("quotas/", quotas.QuotaDefaults.as_view(), name="quota_defaults"),
    path("users/", users.UserList.as_view(), name="users"),
    path("users/create/", users.UserCreate.as_view(), name="user_create"),
    path("users/<uuid:user_id>/", users.UserDetail.as_view(), name="user_page"),
    path("users/<uuid:user_id>/edit/", users.UserEdit.as_view(), name="user_edit"),
    path("users/<uuid:user_id>/password/", user_actions.UserPassword.as_view(), name="user_password"),
    path("users/<uuid:user_id>/roles/add/", members.RoleGive.as_view(kind="user"), name="user_role_give"),
    path(
        "users/<uuid:user_id>/credentials/<uuid:application_credential_id>/delete/",
        user_actions.CredentialDelete.as_view(),
        name="user_credential_delete",
    ),
    path("users/<uuid:user_id>/<slug:action>/", user_actions.UserActionPage.as_view(), name="user_action"),
    path("groups/", groups.GroupList.as_view(), name="groups"),
    path("groups/create/", groups.GroupCreate.as_view(), name="group_create"),
    path("groups/<uuid:group_id>/", groups.GroupDetail.as_view(), name="group_page"),
    path("groups/<uuid:group_id>/edit/", groups.GroupEdit.as_view(), name="group_edit"),
    path("groups/<uuid:group_id>/delete/", groups.GroupDelete.as_view(), name="group_delete"),
    path("groups/<uuid:group_id>/users/add/", groups.GroupUserAdd.as_view(), name="group_user_add"),
    path(
        "groups/<uuid:group_id>/users/<uuid:user_id>/remove/",
        groups.GroupUserRemove.as_view(),
        name="group_user_remove",
    ),
    path("groups/<uuid:group_id>/roles/add/", members.RoleGive.as_view(kind="group"), name="group_role_give"),
    path("roles/", roles.RoleList.as_view(), name="roles"),
    path("roles/create/", roles.RoleCreate.as_view(), name="role_create"),
    path("roles/<uuid:role_id>/edit/", roles.RoleEdit.as_view(), name="role_edit"),
    path("roles/<uuid:role_id>/implications/", roles.RoleImplications.as_view(), name="role_implications"),
    path("roles/<uuid:role_id>/delete/", roles.RoleDelete.as_view(), name="role_delete"),
    path("domains/", domains.DomainList.as_view(), name="domains"),
    path("domains/create/", domains.DomainCreate.as_view(), name="domain_create"),
    path("domain/", domains.OwnDomain.as_view(), name="own_domain"),
    path("domains/<str:domain_id>/", domains.DomainDetail.as_view(), name="domain_page"),
    path("domains/<str:domain_id>/members/add/", members.DomainMemberAdd.as_view(), name="domain_member_add"),
    path(
        "domains/<str:domain_id>/members/<slug:kind>/<uuid:actor_id>/",
        members.DomainMemberRoles.as_view(),
        name="domain_member_roles",
    ),
    path(
        "domains/<str:domain_id>/members/<slug:kind>/<uuid:actor_id>/remove/",
        members.DomainMemberRemove.as_view(),
        name="domain_member_remove",
    ),
    path("domains/<str:domain_id>/edit/", domains.DomainEdit.as_view(), name="domain_edit"),
    path("domains/<str:domain_id>/disable/", domains.DomainSwitchOff.as_view(), name="domain_disable"),
    path("domains/<str:domain_id>/enable/", domains.DomainSwitchOn.as_view(), name="domain_enable"),
    path("domains/<str:domain_id>/delete/", domains.DomainDelete.as_view(), name="domain_delete"),
    path("system/", system.System.as_view(), name="system"),
    path("system/members/add/", members.SystemMemberAdd.as_view(), name="system_member_add"),
    path(
        "system/members/<slug:kind>/<uuid:actor_id>/", members.SystemMemberRoles.as_view(), name="system_member_roles"
    ),
    path(
        "system/members/<slug:kind>/<uuid:actor_id>/remove/",
        members.SystemMemberRemove.as_view(),
        name="system_member_remove",
    ),
]
