"""Connects the layers: passes entries of higher layers to lower ones. ``jobs`` and ``tasks`` have the longest lists."""

from django.core.checks import register as register_check

import provisioning.batches.retention
import provisioning.catalogue.ownership
import provisioning.catalogue.services.following
import provisioning.compute.actions.every
import provisioning.compute.actions.interfaces
import provisioning.compute.actions.registry
import provisioning.compute.host_link.firmware_states
import provisioning.compute.host_link.guest_changes
import provisioning.compute.inbound.volume_user
import provisioning.compute.records.passwords
import provisioning.compute.state_machine.state
import provisioning.compute.upkeep.kept_interfaces
import provisioning.compute.upkeep.restored
import provisioning.compute.wiring.holdings
import provisioning.compute.wiring.retention
import provisioning.compute.wiring.server_subjects
import provisioning.cpus.services
import provisioning.doctor.jobs
import provisioning.drains.restored
import provisioning.drains.retention
import provisioning.ec2.given
import provisioning.ec2.kinds
import provisioning.ec2.retention
import provisioning.hosts.certificates
import provisioning.hosts.commands
import provisioning.hosts.restored
import provisioning.hosts.retention
import provisioning.hosts.subjects
import provisioning.identity.encryption.encrypted
import provisioning.identity.encryption.key_records
import provisioning.identity.policy_file
import provisioning.identity.records.project_resources
import provisioning.identity.records.retention
import provisioning.identity.services.credentials
import provisioning.images.records.uses
import provisioning.images.wiring.ownership
import provisioning.images.wiring.restored
import provisioning.images.wiring.retention
import provisioning.jobs.jobs
import provisioning.jobs.registry
import provisioning.jobs.retention
import provisioning.launches.ownership
import provisioning.measures.jobs
import provisioning.metadefs.ownership
import provisioning.network.delivery.handlers
import provisioning.network.delivery.jobs
import provisioning.network.records.guest_ports
import provisioning.network.wiring.holdings
import provisioning.network.wiring.ownership
import provisioning.notifications.jobs
import provisioning.quotas.registry
import provisioning.quotas.services.project_resources
import provisioning.starred.services
import provisioning.volumes.inbound.restored
import provisioning.volumes.inbound.volume_subjects
import provisioning.volumes.records.keys
import provisioning.volumes.records.uses
import provisioning.volumes.services.backups.backup_restores
import provisioning.volumes.services.updates.migrate
import provisioning.volumes.wiring.holdings
from provisioning.common.tasks import TASKS
from provisioning.identity.encryption.encrypted import Encrypted
from provisioning.jobs.queue.tasks import jobs_of_tasks
from provisioning.wiring import jobs, tasks


def connect() -> None:
    """Connect all apps; must be called after Django has loaded the models."""
    _work()
    _owners()
    _limits()
    _retention()
    _ec2()
    _encryption()
    _users()
    _hosts()
    provisioning.jobs.registry.START_CHECKS.connect(provisioning.identity.encryption.key_records.agree_if_possible)
    register_check(provisioning.identity.policy_file.check_policy_file)
    TASKS.check()
    provisioning.compute.state_machine.state.check()


def _work() -> None:
    TASKS.connect(*tasks.TASKS)
    provisioning.jobs.registry.jobs.connect(*jobs.JOBS, *jobs_of_tasks())
    provisioning.jobs.registry.periodic_jobs.connect(*jobs.PERIODIC_JOBS)
    provisioning.compute.actions.registry.connect(*provisioning.compute.actions.every.ACTIONS)


def _owners() -> None:
    provisioning.identity.records.project_resources.OF_PROJECTS.connect(
        *provisioning.quotas.services.project_resources.OF_PROJECTS,
        *provisioning.ec2.retention.OF_PROJECTS,
        *provisioning.images.wiring.ownership.OF_PROJECTS,
        *provisioning.catalogue.ownership.OF_PROJECTS,
        *provisioning.metadefs.ownership.OF_PROJECTS,
        *provisioning.network.wiring.ownership.OF_PROJECTS,
        *provisioning.volumes.wiring.holdings.OF_PROJECTS,
        *provisioning.compute.wiring.holdings.OF_PROJECTS,
        *provisioning.batches.retention.OF_PROJECTS,
        *provisioning.launches.ownership.OF_PROJECTS,
        *provisioning.starred.services.OF_PROJECTS,
    )
    provisioning.identity.records.project_resources.OF_USERS.connect(
        *provisioning.quotas.services.project_resources.OF_USERS,
        *provisioning.compute.wiring.holdings.OF_USERS,
        *provisioning.batches.retention.OF_USERS,
        *provisioning.starred.services.OF_USERS,
    )


def _limits() -> None:
    provisioning.quotas.registry.IN_LEDGER.connect(
        provisioning.network.wiring.holdings.LIMITED,
        provisioning.volumes.wiring.holdings.LIMITED,
        provisioning.compute.wiring.holdings.LIMITED,
    )
    provisioning.quotas.registry.MEASURED.connect(provisioning.images.wiring.ownership.LIMITED)
    provisioning.quotas.registry.UNLIMITED.connect(
        provisioning.quotas.services.project_resources.UNLIMITED,
        provisioning.ec2.retention.UNLIMITED,
        provisioning.images.wiring.ownership.UNLIMITED,
        provisioning.catalogue.ownership.UNLIMITED,
        provisioning.metadefs.ownership.UNLIMITED,
        provisioning.network.wiring.holdings.UNLIMITED,
        provisioning.volumes.wiring.holdings.UNLIMITED,
        provisioning.compute.wiring.holdings.UNLIMITED,
        provisioning.batches.retention.UNLIMITED,
        provisioning.drains.retention.UNLIMITED,
        provisioning.launches.ownership.UNLIMITED,
        provisioning.starred.services.UNLIMITED,
        provisioning.cpus.services.UNLIMITED,
    )


def _retention() -> None:
    provisioning.jobs.retention.PURGED.connect(
        *provisioning.identity.records.retention.PURGED,
        *provisioning.ec2.retention.PURGED,
        *provisioning.hosts.retention.PURGED,
        *provisioning.images.wiring.retention.PURGED,
        *provisioning.compute.wiring.retention.PURGED,
        *provisioning.batches.retention.PURGED,
        *provisioning.drains.retention.PURGED,
    )
    provisioning.jobs.retention.UNPURGED.connect(
        provisioning.jobs.jobs.UNPURGED,
        provisioning.notifications.jobs.UNPURGED,
        provisioning.identity.records.retention.UNPURGED,
        provisioning.quotas.services.project_resources.UNPURGED,
        provisioning.hosts.retention.UNPURGED,
        provisioning.cpus.services.UNPURGED,
        provisioning.images.wiring.retention.UNPURGED,
        provisioning.catalogue.ownership.UNPURGED,
        provisioning.metadefs.ownership.UNPURGED,
        provisioning.network.wiring.ownership.UNPURGED,
        provisioning.volumes.wiring.holdings.UNPURGED,
        provisioning.compute.wiring.retention.UNPURGED,
        provisioning.launches.ownership.UNPURGED,
        provisioning.starred.services.UNPURGED,
        provisioning.measures.jobs.UNPURGED,
        provisioning.doctor.jobs.UNPURGED,
    )


def _ec2() -> None:
    provisioning.ec2.kinds.KINDS.connect(
        *provisioning.images.wiring.ownership.EC2_KINDS,
        *provisioning.network.wiring.ownership.EC2_KINDS,
        *provisioning.volumes.wiring.holdings.EC2_KINDS,
        *provisioning.compute.wiring.holdings.EC2_KINDS,
    )
    provisioning.ec2.given.OWNERS.connect(
        *provisioning.network.wiring.ownership.WITH_EC2_VALUES,
        *provisioning.volumes.wiring.holdings.WITH_EC2_VALUES,
        *provisioning.compute.wiring.holdings.WITH_EC2_VALUES,
    )


def _encryption() -> None:
    provisioning.identity.encryption.encrypted.KINDS.connect(
        Encrypted("credential", provisioning.identity.services.credentials.encrypt_again),
        Encrypted("command", provisioning.hosts.commands.encrypt_again),
        Encrypted("authority of hosts", provisioning.hosts.certificates.encrypt_again),
        Encrypted("key of a volume", provisioning.volumes.records.keys.encrypt_again),
        Encrypted("server password", provisioning.compute.records.passwords.encrypt_again),
        Encrypted("firmware state", provisioning.compute.host_link.firmware_states.encrypt_again),
    )


def _users() -> None:
    provisioning.images.records.uses.USERS.connect(provisioning.compute.wiring.holdings.shelved_server)
    provisioning.images.records.uses.LAUNCHED.connect(provisioning.compute.wiring.holdings.launched_from)
    provisioning.images.records.uses.FOLLOWERS.connect(provisioning.catalogue.services.following.import_ended)
    provisioning.volumes.records.uses.USERS.connect(provisioning.compute.inbound.volume_user.Servers())
    provisioning.volumes.records.uses.MOVES.connect(provisioning.volumes.services.updates.migrate)
    provisioning.volumes.records.uses.FILL.connect(provisioning.volumes.services.backups.backup_restores.fill)
    provisioning.compute.host_link.guest_changes.NOTIFY.connect(provisioning.compute.actions.interfaces.send_refresh)
    provisioning.network.records.guest_ports.OWNERS.connect(provisioning.compute.actions.interfaces.GUESTS)


def _hosts() -> None:
    provisioning.hosts.subjects.HANDLERS.connect(
        provisioning.compute.wiring.server_subjects.ServerHandler(),
        provisioning.volumes.inbound.volume_subjects.CopyHandler(),
        provisioning.volumes.inbound.volume_subjects.VolumeHandler(),
        provisioning.network.delivery.handlers.FloatingIpHandler(),
        provisioning.network.delivery.handlers.RouterHandler(),
        provisioning.network.delivery.handlers.NetworkHandler(),
        provisioning.network.delivery.handlers.SecurityGroupHandler(),
    )
    provisioning.hosts.restored.STEPS.connect(
        provisioning.drains.restored.pause_drains,
        provisioning.compute.upkeep.restored.restore_servers,
        provisioning.compute.upkeep.kept_interfaces.resend_interfaces,
        provisioning.volumes.inbound.restored.restore_volumes,
        provisioning.network.delivery.jobs.raise_numbers,
        provisioning.images.wiring.restored.complete_images,
    )
