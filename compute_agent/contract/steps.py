"""Names of the steps of a build, in order, as in the action's events and on the page."""

PLUG_NETWORK = "plug_network"
FETCH_IMAGE = "fetch_image"
CREATE_DISK = "create_disk"
CREATE_SEED = "create_seed"
DEFINE_DOMAIN = "define_domain"
APPLY_FIREWALL = "apply_firewall"
START_GUEST = "start_guest"
WAIT_FOR_BOOT = "wait_for_boot"

STOP_GUEST = "stop_guest"
COPY_DISK = "copy_disk"
UPLOAD_IMAGE = "upload_image"
UPLOAD_FIRMWARE = "upload_firmware"
"""Steps of a snapshot."""

EXPORT_DISKS = "export_disks"
"""A step of sending a guest to another host, after ``STOP_GUEST``. ``COPY_DISK`` is a step of receiving it."""

ATTACH_INTERFACE = "attach_interface"
DETACH_INTERFACE = "detach_interface"
UNPLUG_NETWORK = "unplug_network"
"""Steps of attaching and detaching an interface."""

ATTACH_VOLUME = "attach_volume"
DETACH_VOLUME = "detach_volume"
REFRESH_VOLUME = "refresh_volume"
SWAP_VOLUME = "swap_volume"
"""Steps of attaching, detaching, extending and swapping a volume."""
VOLUME_STEPS = (ATTACH_VOLUME, DETACH_VOLUME, REFRESH_VOLUME, SWAP_VOLUME)

LISTEN = "listen"
RECEIVE_GUEST = "receive_guest"
MIGRATE_GUEST = "migrate_guest"
"""Steps of a live migration: of the receiving host, and of the sending host."""

BUILD_STEPS = (
    PLUG_NETWORK,
    FETCH_IMAGE,
    CREATE_DISK,
    CREATE_SEED,
    DEFINE_DOMAIN,
    APPLY_FIREWALL,
    START_GUEST,
    WAIT_FOR_BOOT,
)
