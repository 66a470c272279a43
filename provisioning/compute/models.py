"""Instances and what stands around them, with Nova's fields."""

import uuid

from django.db import models

from provisioning.compute.states import PowerState, TaskState, VmState


class Flavor(models.Model):
    """A size.  ``memory_mb`` and ``swap_mb`` in MiB, ``root_gb`` and ``ephemeral_gb`` in GiB."""

    flavorid = models.CharField(max_length=255, unique=True)  # "id" in the API
    name = models.CharField(max_length=255, unique=True)
    description = models.TextField(blank=True)
    vcpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    root_gb = models.PositiveIntegerField()
    ephemeral_gb = models.PositiveIntegerField(default=0)
    swap_mb = models.PositiveIntegerField(default=0)
    rxtx_factor = models.FloatField(default=1.0)
    is_public = models.BooleanField(default=True)
    disabled = models.BooleanField(default=False)
    extra_specs = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class FlavorAccess(models.Model):
    """A project that sees a flavor which is not public."""

    flavor = models.ForeignKey(Flavor, on_delete=models.CASCADE, related_name="access")
    project_id = models.UUIDField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["flavor", "project_id"], name="one_flavor_access")]

    def __str__(self) -> str:
        return f"{self.flavor_id} {self.project_id}"


class KeyPair(models.Model):
    """A user's public key; the private half is never kept."""

    user_id = models.UUIDField(db_index=True)
    name = models.CharField(max_length=255)
    type = models.CharField(max_length=8, default="ssh")
    public_key = models.TextField()
    fingerprint = models.CharField(max_length=64)  # MD5 with colons, as Nova
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user_id", "name"], name="key_pair_name_of_user")]

    def __str__(self) -> str:
        return self.name


class Host(models.Model):
    """A hypervisor and its agent.

    ``*_total`` are what the agent measured; ``*_allocated`` are the sums of the allocations, moved only by the
    conditional updates of claim and release.  Memory in MiB, disk in GiB.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True)
    credential_digest = models.CharField(max_length=64, blank=True)  # SHA-256 of the agent's credential, hex
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=255, blank=True)
    availability_zone = models.CharField(max_length=255, default="nova")
    connected = models.BooleanField(default=False)
    last_seen_at = models.DateTimeField(null=True)
    contract_version = models.PositiveIntegerField(default=0)
    agent_version = models.CharField(max_length=40, blank=True)
    hypervisor_type = models.CharField(max_length=40, blank=True)
    hypervisor_version = models.PositiveIntegerField(default=0)
    hypervisor_hostname = models.CharField(max_length=255, blank=True)
    architecture = models.CharField(max_length=40, blank=True)
    host_ip = models.CharField(max_length=45, blank=True)
    cpu_info = models.JSONField(default=dict)
    cached_images = models.JSONField(default=list)
    vcpus_total = models.PositiveIntegerField(default=0)
    memory_mb_total = models.PositiveIntegerField(default=0)
    disk_gb_total = models.PositiveIntegerField(default=0)
    memory_mb_used = models.PositiveIntegerField(default=0)  # measured by the agent
    disk_gb_used = models.PositiveIntegerField(default=0)
    running_vms = models.PositiveIntegerField(default=0)
    vcpus_allocated = models.PositiveIntegerField(default=0)
    memory_mb_allocated = models.PositiveIntegerField(default=0)
    disk_gb_allocated = models.PositiveIntegerField(default=0)
    instances_allocated = models.PositiveIntegerField(default=0)
    cpu_allocation_ratio = models.FloatField(default=4.0)
    ram_allocation_ratio = models.FloatField(default=1.0)
    disk_allocation_ratio = models.FloatField(default=1.0)
    reserved_memory_mb = models.PositiveIntegerField(default=512)
    reserved_disk_gb = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class JoinToken(models.Model):
    """A one-time permission for one new agent to enrol."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of the token, hex
    host_name = models.CharField(max_length=255, blank=True)  # only this name may use it; empty: any
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.host_name or "any host"


class Instance(models.Model):
    """A server: what was asked for, where it is, and how it is.

    State columns move only in ``compute.services.state`` by conditional update against ``states.LEGAL``.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField()
    user_id = models.UUIDField()
    name = models.CharField(max_length=255)
    hostname = models.CharField(max_length=63)
    description = models.CharField(max_length=255, null=True)
    vm_state = models.CharField(max_length=16, choices=VmState, default=VmState.BUILDING)
    task_state = models.CharField(max_length=32, choices=TaskState, null=True, default=TaskState.SCHEDULING)
    power_state = models.PositiveSmallIntegerField(default=PowerState.NOSTATE.value)
    task_deadline = models.DateTimeField(null=True)
    attempt = models.PositiveIntegerField(default=0)  # the fencing number: raised by every schedule and every delete
    version = models.PositiveIntegerField(default=1)  # raised by every change that a page shows
    host = models.ForeignKey(Host, null=True, on_delete=models.PROTECT, related_name="instances")
    availability_zone = models.CharField(max_length=255, blank=True)  # asked for; empty: any
    image_id = models.UUIDField(null=True)
    image_name = models.CharField(max_length=255, blank=True)
    flavor = models.JSONField()  # a copy: flavorid name vcpus memory_mb root_gb ephemeral_gb swap_mb extra_specs
    key_name = models.CharField(max_length=255, null=True)
    public_key = models.TextField(null=True)
    user_data = models.TextField(null=True)  # base64
    metadata = models.JSONField(default=dict)  # text to text
    tags = models.JSONField(default=list)
    config_drive = models.BooleanField(default=False)
    requested_networks = models.JSONField(default=list)  # [{"network_id"|"port_id", "fixed_ip"}] in order of the cards
    security_groups = models.JSONField(default=list)  # ids
    scheduler_hints = models.JSONField(default=dict)
    excluded_hosts = models.JSONField(default=list)  # ids of hosts that failed this request
    reservation_id = models.CharField(max_length=32, db_index=True)
    launch_index = models.PositiveIntegerField(default=0)
    locked = models.BooleanField(default=False)
    request_id = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    launched_at = models.DateTimeField(null=True)
    terminated_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["project_id", "-created_at", "-id"], name="instance_of_project"),
            models.Index(fields=["task_deadline"], name="instance_deadline", condition=~models.Q(task_state=None)),
        ]

    def __str__(self) -> str:
        return self.name


class Allocation(models.Model):
    """The room an instance holds on a host: one row per instance, so it can be held only once."""

    instance = models.OneToOneField(Instance, on_delete=models.CASCADE, related_name="allocation")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="allocations")
    attempt = models.PositiveIntegerField()
    vcpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    disk_gb = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.instance_id} on {self.host_id}"


class InstanceFault(models.Model):
    """Why an instance failed, in words for its owner; ``details`` are for operators."""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="faults")
    code = models.PositiveIntegerField(default=500)
    message = models.CharField(max_length=1024)
    details = models.TextField(blank=True)
    host_name = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.message


class InstanceAction(models.Model):
    """One thing that was asked of an instance: create, delete, stop …"""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="actions")
    action = models.CharField(max_length=40)
    request_id = models.CharField(max_length=64)
    user_id = models.UUIDField(null=True)
    project_id = models.UUIDField(null=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    message = models.CharField(max_length=1024, null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["instance", "request_id", "action"], name="one_action_per_request")
        ]

    def __str__(self) -> str:
        return self.action


class InstanceActionEvent(models.Model):
    """One step of an action.  Names: ``api_create``, ``schedule``, ``claim``, ``allocate_network``, ``hand_off``, then
    the contract's build steps; each with the attempt it belongs to.
    """

    action = models.ForeignKey(InstanceAction, on_delete=models.CASCADE, related_name="events")
    name = models.CharField(max_length=60)
    attempt = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=16, blank=True)  # "Success", "Error", empty while running
    host = models.CharField(max_length=255, blank=True)
    detail = models.JSONField(default=dict)  # text to text, fit for the owner
    message = models.CharField(max_length=1024, blank=True)  # why it failed, fit for the owner

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "name", "attempt"], name="one_event_per_step")]

    def __str__(self) -> str:
        return self.name


class SchedulingDecision(models.Model):
    """How a place was found, or why there was none."""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="decisions")
    attempt = models.PositiveIntegerField()
    host_name = models.CharField(max_length=255, blank=True)  # empty: none
    filters = models.JSONField()  # [{"name", "before", "after", "reason"}] in running order
    weights = models.JSONField(default=list)  # [{"host", "weight"}] of the best, for operators
    seconds = models.FloatField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["instance", "attempt"], name="one_decision_per_attempt")]

    def __str__(self) -> str:
        return self.host_name or "no valid host"
