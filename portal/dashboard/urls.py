"""URLs of the dashboard."""

from django.urls import include, path

from portal.dashboard.account.expired import ChangeExpired
from portal.dashboard.account.views import (
    ProjectSearch,
    SignIn,
    SignOut,
    SwitchDomain,
    SwitchProject,
    SwitchToSystem,
)
from portal.dashboard.api_access.ec2 import Ec2CredentialCreate, Ec2CredentialDelete, Ec2CredentialList
from portal.dashboard.api_access.views import ApiAccess, TryIt, TryItToken
from portal.dashboard.application_credentials.views import CredentialCreate, CredentialDelete, CredentialList
from portal.dashboard.flavors import FlavorCreate, FlavorDelete, FlavorList
from portal.dashboard.images.catalogue import CatalogueAdd, CatalogueList
from portal.dashboard.images.hardware import ImageHardware
from portal.dashboard.images.sharing import ImageAccept, ImageReject, ImageShare, ImageUnshare
from portal.dashboard.images.views import ImageData, ImageDelete, ImageList, ImageResume, ImageUpload
from portal.dashboard.instances.detail.disks import DiskFigures
from portal.dashboard.instances.detail.tabs import TABS
from portal.dashboard.instances.dialogs import DIALOGS
from portal.dashboard.instances.parts import ConsoleLog, FileSystemsPart, InstanceGraphs
from portal.dashboard.instances.remote_consoles import ConsoleWindow, OpenConsole
from portal.dashboard.instances.server_groups import ServerGroupCreate, ServerGroupDelete, ServerGroupList
from portal.dashboard.instances.views import (
    InstanceAction,
    InstanceActions,
    InstanceList,
    InstanceTab,
)
from portal.dashboard.key_pairs import KeyPairCreate, KeyPairDelete, KeyPairList
from portal.dashboard.launch import leases, made_here
from portal.dashboard.launch.views import Keys, Launch, Quote
from portal.dashboard.overview.views import Overview
from portal.dashboard.search.views import Search, Star, Starred
from portal.dashboard.settings.password import Password
from portal.dashboard.settings.profile import Profile
from portal.dashboard.settings.sessions import SessionEnd, Sessions, SessionsEnd
from portal.dashboard.styleguide.views import Styleguide, StyleguideDanger, StyleguideForm, StyleguideQuestion
from portal.dashboard.topology.views import TopologyPage

app_name = "dashboard"
urlpatterns = [
    path("", Overview.as_view(), name="overview"),
    path("auth/login/", SignIn.as_view(), name="sign_in"),
    path("auth/password/", ChangeExpired.as_view(), name="change_expired"),
    path("auth/logout/", SignOut.as_view(), name="sign_out"),
    path("auth/projects/", ProjectSearch.as_view(), name="project_search"),
    path("auth/project/<uuid:project_id>/", SwitchProject.as_view(), name="switch_project"),
    path("auth/domain/<str:domain_id>/", SwitchDomain.as_view(), name="switch_domain"),
    path("auth/system/", SwitchToSystem.as_view(), name="switch_to_system"),
    path("instances/", InstanceList.as_view(), name="instances"),
    path("instances/launch/", Launch.as_view(), name="launch"),
    path("instances/launch/quote/", Quote.as_view(), name="launch_quote"),
    path("instances/launch/keys/", Keys.as_view(), name="launch_keys"),
    path("instances/launch/networks/", made_here.Networks.as_view(), name="launch_networks"),
    path("instances/launch/security-groups/", made_here.Groups.as_view(), name="launch_groups"),
    *(
        path(f"instances/<uuid:instance_id>/{tab.route}", InstanceTab.as_view(tab=tab), name=tab.url_name)
        for tab in TABS
    ),
    path("instances/<uuid:instance_id>/graphs/<slug:span>/", InstanceGraphs.as_view(), name="instance_graphs_of"),
    path("instances/<uuid:instance_id>/actions/", InstanceActions.as_view(), name="instance_actions"),
    path("instances/<uuid:instance_id>/disk-figures/", DiskFigures.as_view(), name="instance_disk_figures"),
    path("instances/<uuid:instance_id>/file-systems/", FileSystemsPart.as_view(), name="instance_file_systems"),
    path("instances/<uuid:instance_id>/console.log", ConsoleLog.as_view(), name="instance_console_log"),
    path("instances/<uuid:instance_id>/console/<slug:protocol>/", OpenConsole.as_view(), name="instance_open_console"),
    path("console/vnc", ConsoleWindow.as_view(protocol="vnc"), name="console_vnc"),
    path("console/serial", ConsoleWindow.as_view(protocol="serial"), name="console_serial"),
    *(path(f"instances/<uuid:instance_id>/{sheet.path}/", sheet.as_view(), name=sheet.url_name()) for sheet in DIALOGS),
    path("instances/<uuid:identity>/lease/", leases.LeaseEdit.as_view(), name="instance_lease"),
    path("instances/<uuid:identity>/lease/extend/", leases.LeaseExtend.as_view(), name="instance_lease_extend"),
    path("instances/<uuid:instance_id>/<slug:button>/", InstanceAction.as_view(), name="instance_action"),
    path("server-groups/", ServerGroupList.as_view(), name="server_groups"),
    path("server-groups/create/", ServerGroupCreate.as_view(), name="server_group_create"),
    path("server-groups/<uuid:identity>/delete/", ServerGroupDelete.as_view(), name="server_group_delete"),
    path("network-map/", TopologyPage.as_view(), name="topology"),
    path("images/", ImageList.as_view(), name="images"),
    path("images/upload/", ImageUpload.as_view(), name="image_upload"),
    path("images/catalogue/", CatalogueList.as_view(), name="catalogue"),
    path("images/catalogue/<str:entry_id>/add/", CatalogueAdd.as_view(), name="catalogue_add"),
    path("images/<uuid:image_id>/upload/", ImageResume.as_view(), name="image_resume"),
    path("images/<uuid:image_id>/data/", ImageData.as_view(), name="image_data"),
    path("images/<uuid:image_id>/hardware/", ImageHardware.as_view(), name="image_hardware"),
    path("images/<uuid:image_id>/share/", ImageShare.as_view(), name="image_share"),
    path("images/<uuid:image_id>/share/<uuid:project_id>/", ImageUnshare.as_view(), name="image_unshare"),
    path("images/<uuid:image_id>/accept/", ImageAccept.as_view(), name="image_accept"),
    path("images/<uuid:image_id>/decline/", ImageReject.as_view(), name="image_decline"),
    path("images/<uuid:image_id>/delete/", ImageDelete.as_view(), name="image_delete"),
    path("flavors/", FlavorList.as_view(), name="flavors"),
    path("flavors/create/", FlavorCreate.as_view(), name="flavor_create"),
    path("flavors/<str:flavor_id>/delete/", FlavorDelete.as_view(), name="flavor_delete"),
    path("key-pairs/", KeyPairList.as_view(), name="key_pairs"),
    path("key-pairs/create/", KeyPairCreate.as_view(), name="key_pair_create"),
    path("key-pairs/<str:name>/delete/", KeyPairDelete.as_view(), name="key_pair_delete"),
    path("settings/", Profile.as_view(), name="settings"),
    path("settings/password/", Password.as_view(), name="settings_password"),
    path("settings/sessions/", Sessions.as_view(), name="settings_sessions"),
    path("settings/sessions/end/", SessionsEnd.as_view(), name="settings_sessions_end"),
    path("settings/sessions/<uuid:sign_in_id>/end/", SessionEnd.as_view(), name="settings_session_end"),
    path("api/", TryIt.as_view(), name="try_it"),
    path("api/token/", TryItToken.as_view(), name="try_it_token"),
    path("api-access/", ApiAccess.as_view(), name="api_access"),
    path("api-access/ec2/", Ec2CredentialList.as_view(), name="ec2_credentials"),
    path("api-access/ec2/create/", Ec2CredentialCreate.as_view(), name="ec2_credential_create"),
    path("api-access/ec2/<slug:credential_id>/delete/", Ec2CredentialDelete.as_view(), name="ec2_credential_delete"),
    path("application-credentials/", CredentialList.as_view(), name="application_credentials"),
    path("application-credentials/create/", CredentialCreate.as_view(), name="application_credential_create"),
    path(
        "application-credentials/<uuid:credential_id>/delete/",
        CredentialDelete.as_view(),
        name="application_credential_delete",
    ),
    path("", include("portal.dashboard.cloud.urls")),
    path("", include("portal.dashboard.launch_templates.urls")),
    path("", include("portal.dashboard.graphs.urls")),
    path("", include("portal.dashboard.network.urls")),
    path("", include("portal.dashboard.volumes.urls")),
    path("", include("portal.dashboard.identity.urls")),
    path("", include("portal.dashboard.batches.urls")),
    path("search/", Search.as_view(), name="search"),
    path("styleguide/", Styleguide.as_view(), name="styleguide"),
    path("styleguide/question/", StyleguideQuestion.as_view(), name="styleguide_question"),
    path("styleguide/danger/", StyleguideDanger.as_view(), name="styleguide_danger"),
    path("styleguide/form/", StyleguideForm.as_view(), name="styleguide_form"),
    path("starred/", Starred.as_view(), name="starred"),
    path("starred/<slug:resource_kind>/<uuid:thing_id>/", Star.as_view(), name="star"),
]
