"""Power, and a password inside the guest."""

from __future__ import annotations

from compute_agent.contract.orders import PasswordRequest, PowerRequest
from compute_agent.contract.power import PowerState
from compute_agent.manager.orders.means import Means
from compute_agent.manager.orders.registry import carries_out


@carries_out(PowerRequest)
def switch(means: Means, request: PowerRequest) -> PowerState:
    """Change the guest's power state."""
    driver, uuid = means.driver, means.uuid
    match request.action:
        case "start":
            driver.start(uuid)
            return driver.wait_for_boot(uuid, means.parts.boot_timeout)
        case "stop":
            driver.stop(uuid, request.timeout)
        case "reboot_soft" | "reboot_hard":
            driver.reboot(uuid, hard=request.action == "reboot_hard", timeout=request.timeout)
        case "pause":
            driver.pause(uuid)
        case "unpause":
            driver.unpause(uuid)
        case "suspend":
            driver.suspend(uuid)
        case "resume":
            driver.resume(uuid)
            return driver.wait_for_boot(uuid, means.parts.boot_timeout)
        case "crash_dump":
            driver.crash_dump(uuid)
    return driver.power_state(uuid)


@carries_out(PasswordRequest)
def set_password(means: Means, request: PasswordRequest) -> PowerState:
    """Set a password inside the guest."""
    means.driver.set_password(means.uuid, request.user, request.password)
    return means.driver.power_state(means.uuid)
