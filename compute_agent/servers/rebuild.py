"""Disks made anew."""

from __future__ import annotations

from compute_agent.contract.commands import RebuildRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import (
    APPLY_FIREWALL,
    CREATE_DISK,
    CREATE_SEED,
    DEFINE_DOMAIN,
    FETCH_IMAGE,
    PLUG_NETWORK,
    START_GUEST,
    WAIT_FOR_BOOT,
)
from compute_agent.servers.boot_sources import fetch
from compute_agent.servers.context import CommandContext
from compute_agent.servers.registry import handles


@handles(RebuildRequest, heavy=True)
def rebuild(means: CommandContext, request: RebuildRequest) -> PowerState:
    """Make the guest anew in its own place, by the steps of a build.

    Until the images are here it goes on as it was; what fails from then on only another rebuild can mend.
    """
    spec, driver, parts = request.instance, means.driver, means.parts
    with means.step(PLUG_NETWORK):
        parts.network.plug(spec)
    with means.step(FETCH_IMAGE) as facts:
        bits = fetch(parts.images, spec.uuid, spec.image, spec.kernel, spec.ramdisk)
        facts.update(bits.facts)
    with means.step(CREATE_DISK):
        driver.create_disk(spec, bits.disk, keep_ephemeral=request.preserve_ephemeral)
        driver.create_boot_files(spec, bits.boot)
    with means.step(CREATE_SEED):
        driver.create_seed(spec)
    with means.step(DEFINE_DOMAIN):
        driver.define(spec, means.command.attempt)
    with means.step(APPLY_FIREWALL):
        parts.network.apply_firewall(spec)
    if not request.start:
        return driver.power_state(spec.uuid)
    with means.step(START_GUEST):
        driver.start(spec.uuid)
    with means.step(WAIT_FOR_BOOT):
        return driver.wait_for_boot(spec.uuid, parts.boot_timeout)
