"""Loads what registers itself: what hosts report to, what volumes call, and what is done by the clock."""

from provisioning.compute import deadlines, jobs, server_subjects, volume_user
from provisioning.compute.actions import every
from provisioning.compute.launch import schedule
from provisioning.compute.upkeep import confirm_resizes, offload, reaper, reclaim, restored, silent_hosts

__all__ = [
    "confirm_resizes",
    "deadlines",
    "every",
    "jobs",
    "offload",
    "reaper",
    "reclaim",
    "restored",
    "schedule",
    "server_subjects",
    "silent_hosts",
    "volume_user",
]
