"""All jobs of the queue, except those of tasks (``jobs_of_tasks``), and all periodic jobs."""

from typing import Any

from provisioning.batches import jobs as batches
from provisioning.catalogue import jobs as catalogue
from provisioning.compute import jobs as compute
from provisioning.compute.inbound import volume_user
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.moves import cold
from provisioning.compute.upkeep.confirm_resizes import confirm_resizes
from provisioning.compute.upkeep.offload import offload_shelved
from provisioning.compute.upkeep.reaper import forced_down, reap
from provisioning.compute.upkeep.reclaim import reclaim
from provisioning.compute.upkeep.silent_hosts import announce_silent_hosts
from provisioning.doctor import jobs as doctor
from provisioning.drains import jobs as drains
from provisioning.hosts import jobs as hosts
from provisioning.identity import jobs as identity
from provisioning.images import jobs as images
from provisioning.jobs import jobs as queue
from provisioning.jobs.registry import Job, PeriodicJob
from provisioning.launches import jobs as launches
from provisioning.measures import jobs as measures
from provisioning.network import upkeep as network
from provisioning.network.delivery import jobs as delivery
from provisioning.notifications import jobs as notifications
from provisioning.quotas import jobs as quotas
from provisioning.volumes.services.updates import limits
from provisioning.volumes.upkeep import backup_jobs
from provisioning.volumes.upkeep import upkeep as volumes

JOBS: tuple[Job[Any], ...] = (
    queue.ping,
    notifications.deliver,
    delivery.deliver,
    limits.follow,
    backup_jobs.discard_backup_data,
    schedule,
    cold.go_on,
    forced_down,
    volume_user.connected,
    volume_user.refused,
    volume_user.second_connected,
    volume_user.ready,
    volume_user.attach_new,
    volume_user.failed,
    volume_user.reimaged,
    volume_user.changed,
    volume_user.moved,
    volume_user.released,
    batches.run,
    drains.run,
    doctor.examine,
)
PERIODIC_JOBS: tuple[PeriodicJob, ...] = (
    queue.prune_events,
    queue.purge,
    notifications.call_sender,
    notifications.prune,
    identity.flush,
    quotas.check,
    hosts.prune,
    hosts.mark_silent,
    hosts.try_rejected_reports,
    images.clean_up,
    catalogue.refresh_if_due,
    catalogue.remove_replaced,
    network.forget_released,
    network.follow_subnets,
    network.forget_tags,
    network.complete,
    delivery.deliver_again,
    delivery.move_bearers,
    delivery.look_over,
    volumes.reap,
    volumes.delete_moved_data,
    volumes.follow_dead_hosts,
    volumes.ask_places,
    volumes.forget_copies,
    volumes.forget_messages,
    backup_jobs.end_lost_restores,
    backup_jobs.sweep,
    compute.audit,
    compute.flush_console_tokens,
    compute.fold_totals,
    reap,
    reclaim,
    offload_shelved,
    confirm_resizes,
    announce_silent_hosts,
    launches.keep_leases,
    batches.resume,
    drains.run_all,
    measures.collect_reports,
    *doctor.SCHEDULED,
)
