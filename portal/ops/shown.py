"""Records that the operators' pages show, and their pages in the dashboard."""

SHOWN = frozenset(
    {"compute", "doctor", "hosts", "identity", "images", "jobs", "network", "notifications", "quotas", "volumes"}
)
"""Apps whose records operators see; models registered by other apps (queues, groups) are hidden."""
IN_DASHBOARD = {
    "compute.Flavor": ("flavors", "flavor_create"),
    "identity.Domain": ("domains", "domain_create"),
    "identity.Group": ("groups", "group_create"),
    "identity.Project": ("projects", "project_create"),
    "identity.Role": ("roles", "role_create"),
    "identity.User": ("users", "user_create"),
}
"""Model → the dashboard's list and its form for a new record, used by links of the admin."""

OBJECT_PAGES = {
    "compute.Instance": "instance",
    "hosts.Host": "host",
    "identity.Domain": "domain_page",
    "identity.Group": "group_page",
    "identity.Project": "project_page",
    "identity.Role": "role_edit",
    "identity.User": "user_page",
}
"""Model → the URL name of the page of one record in the dashboard that operators may open for every project."""
TASKS = {
    "Health": (
        *("doctor.DoctorRun", "jobs.Lease", "hosts.RejectedReport", "network.Delivery", "notifications.Delivery"),
        *("compute.NewerGuest", "compute.InterfaceDifference", "volumes.Message"),
    ),
    "Hosts and placement": ("hosts.Host", "compute.Aggregate", "compute.ServerGroup", "compute.SchedulingDecision"),
    "Instances": ("compute.Instance", "compute.Flavor", "images.Image"),
    "Networks": (
        *("network.Network", "network.Subnet", "network.Port", "network.Router", "network.FloatingIP"),
        *("network.PortForwarding", "network.SubnetPool", "network.AddressScope", "network.RbacPolicy"),
    ),
    "Security groups": (
        *("network.SecurityGroup", "network.SecurityGroupRule", "network.DefaultSecurityGroupRule"),
        "network.AddressGroup",
    ),
    "Volumes and backups": (
        *("volumes.Volume", "volumes.Snapshot", "volumes.Backup", "volumes.Attachment", "volumes.StoragePool"),
        *("volumes.PoolClaim", "volumes.VolumeType", "volumes.DefaultType", "volumes.GroupType", "volumes.QosSpec"),
    ),
    "People, projects and quotas": (
        *("identity.Project", "identity.User", "identity.Group", "identity.Role", "identity.RoleAssignment"),
        *("identity.Domain", "quotas.QuotaLimit"),
    ),
    "Sessions and credentials": (
        *("identity.SignIn", "identity.ApplicationCredential", "identity.Credential", "identity.Trust"),
    ),
    "Service catalog": ("identity.Service", "identity.Endpoint", "identity.Region"),
}
"""Task → the models of the admin's start page and side bar, in order."""
