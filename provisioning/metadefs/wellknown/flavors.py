"""Properties of flavors for guests: processors, memory, limits and devices."""

from provisioning.metadefs.wellknown.words import (
    Group,
    Properties,
    WellKnown,
    flavor,
    image,
    integer,
    text,
    truth,
    volume,
)

_OF_GUEST = (image("hw_"), volume("hw_"), flavor("hw:"))
_HOST_HAS = "Limits of a guest's use of its host; the flavor API validates the values."


def _limits(kind: str, unit: str, *names: str) -> Properties:
    return {f"quota:{kind}_{name}": integer(name.replace("_", " ").capitalize(), unit, least=0) for name in names}


NAMESPACES = (
    WellKnown(
        "OS::Compute::VirtCPUTopology",
        "CPU topology",
        "How the vCPUs are presented to the guest: as sockets, cores and threads.",
        _OF_GUEST,
        {
            f"cpu_{most}{part}": integer(
                f"{'Maximum ' if most else ''}{part}".capitalize(),
                f"{'Maximum number' if most else 'Number'} of {part} that the guest sees.",
                least=1,
            )
            for most in ("", "max_")
            for part in ("sockets", "cores", "threads")
        },
    ),
    WellKnown(
        "OS::Compute::CPUPinning",
        "CPU pinning",
        "Whether vCPUs are pinned to dedicated processors of the host.",
        _OF_GUEST,
        {
            "cpu_policy": text("Policy", "shared: vCPUs run on any host processor.", *("shared", "dedicated", "mixed")),
            "cpu_thread_policy": text(
                "Threads", "How vCPUs may use the threads of one core.", *("isolate", "prefer", "require")
            ),
        },
    ),
    WellKnown(
        "OS::Compute::CPUMode",
        "CPU mode",
        "The processor model that the guest sees.",
        (image("hw_"),),
        {
            "cpu_mode": text(
                "Mode",
                "How the processor of the guest is derived from the host's.",
                *("host-model", "host-passthrough", "maximum", "custom"),
            )
        },
    ),
    WellKnown(
        "OS::Compute::GuestMemoryBacking",
        "Memory pages",
        "Size of the pages of the guest's memory.",
        (flavor("hw:"), image("hw_"), volume("hw_")),
        {"mem_page_size": text("Page size", "small, large, any, or a size such as 2MB.")},
    ),
    WellKnown(
        "OS::Compute::Libvirt",
        "Libvirt: guests",
        "Options of the libvirt driver for flavors and images.",
        (image("hw_"), flavor("hw:")),
        {
            "serial_port_count": integer("Serial ports", "Number of serial ports of the guest.", least=0),
            "boot_menu": text("Boot menu", "Whether a boot menu is shown at the start.", *("true", "false")),
            "mem_encryption": text(
                "Encrypted memory", "Whether the host must encrypt the guest's memory.", *("true", "false")
            ),
            "mem_encryption_model": text("Encryption", "Encryption technology.", *("amd-sev", "amd-sev-es")),
            "virtio_packed_ring": text(
                "Packed rings", "Whether virtio devices use packed virtqueues.", *("true", "false")
            ),
        },
    ),
    WellKnown(
        "OS::Compute::TPM",
        "TPM",
        "Whether the guest has an emulated TPM, and its model.",
        (flavor("hw:"), image("hw_")),
        {
            "tpm_model": text(
                "Model", "Interface of the TPM.", *("tpm-tis", "tpm-crb"), operators=["<or>"], default="tpm-tis"
            ),
            "tpm_version": text("Version", "Version of the TPM.", *("1.2", "2.0"), operators=["<or>"]),
        },
    ),
    WellKnown(
        "OS::Compute::Watchdog",
        "Watchdog",
        "The action when the guest no longer answers its watchdog.",
        _OF_GUEST,
        {
            "watchdog_action": text(
                "Action", "Action on the guest.", *("disabled", "reset", "poweroff", "pause", "none")
            )
        },
    ),
    WellKnown(
        "OS::Compute::RandomNumberGenerator",
        "Random numbers",
        "Whether the guest may use random numbers of its host, and how many.",
        (flavor(),),
        {
            "hw_rng:allowed": truth("Allowed", "Whether the guest may use them."),
            "hw_rng:rate_bytes": integer("Bytes", "Maximum number of bytes in each period.", least=0),
            "hw_rng:rate_period": integer("Period", "Milliseconds of each period.", least=0),
        },
    ),
    WellKnown(
        "OS::Compute::Quota",
        "Flavor quotas",
        _HOST_HAS,
        (flavor(),),
        groups=(
            Group(
                "CPU Limits",
                "Limits of the vCPUs' use of the host's processors.",
                {
                    "quota:cpu_shares": integer("Shares", "Weight relative to the other guests of the host.", least=0),
                    "quota:cpu_period": integer("Period", "Microseconds of each period.", least=1000, most=1_000_000),
                    "quota:cpu_quota": integer("Quota", "Microseconds that each vCPU may run in each period."),
                },
            ),
            Group(
                "Disk QoS",
                "Rate limits of the disks.",
                {
                    **_limits("disk", "Bytes per second.", "read_bytes_sec", "write_bytes_sec", "total_bytes_sec"),
                    **_limits("disk", "Requests per second.", "read_iops_sec", "write_iops_sec", "total_iops_sec"),
                },
            ),
            Group(
                "Virtual Interface QoS",
                "Rate limits of the interfaces.",
                {
                    **_limits("vif", "Kilobytes per second.", "inbound_average", "inbound_peak"),
                    **_limits("vif", "Kilobytes per second.", "outbound_average", "outbound_peak"),
                    **_limits("vif", "Kilobytes in one burst.", "inbound_burst", "outbound_burst"),
                },
            ),
        ),
    ),
)
