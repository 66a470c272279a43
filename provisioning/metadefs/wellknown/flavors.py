"""What flavors say of their guests: processors, memory, limits, devices."""

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
_HOST_HAS = "What the host may give one guest of it; the flavor's API checks the value."


def _limits(kind: str, unit: str, *names: str) -> Properties:
    return {f"quota:{kind}_{name}": integer(name.replace("_", " ").capitalize(), unit, least=0) for name in names}


NAMESPACES = (
    WellKnown(
        "OS::Compute::VirtCPUTopology",
        "CPU topology",
        "How the guest sees its vCPUs: as sockets, cores and threads.",
        _OF_GUEST,
        {
            f"cpu_{most}{part}": integer(
                f"{'Most ' if most else ''}{part}".capitalize(),
                f"{'At most so' if most else 'How'} many {part} the vCPUs are shown as.",
                least=1,
            )
            for most in ("", "max_")
            for part in ("sockets", "cores", "threads")
        },
    ),
    WellKnown(
        "OS::Compute::CPUPinning",
        "CPU pinning",
        "Whether vCPUs have processors of the host for themselves.",
        _OF_GUEST,
        {
            "cpu_policy": text("Policy", "shared: they run wherever there is room.", *("shared", "dedicated", "mixed")),
            "cpu_thread_policy": text(
                "Threads", "How they may lie on threads of one core.", *("isolate", "prefer", "require")
            ),
        },
    ),
    WellKnown(
        "OS::Compute::CPUMode",
        "CPU mode",
        "As which processor the guest sees the host's.",
        (image("hw_"),),
        {
            "cpu_mode": text(
                "Mode",
                "How the guest's processor is made up.",
                *("host-model", "host-passthrough", "maximum", "custom"),
            )
        },
    ),
    WellKnown(
        "OS::Compute::GuestMemoryBacking",
        "Memory pages",
        "Of which pages the guest's memory is.",
        (flavor("hw:"), image("hw_"), volume("hw_")),
        {"mem_page_size": text("Size of pages", "small, large, any, or a size such as 2MB.")},
    ),
    WellKnown(
        "OS::Compute::Libvirt",
        "Libvirt: guests",
        "What the driver for libvirt may be told by a flavor or an image.",
        (image("hw_"), flavor("hw:")),
        {
            "serial_port_count": integer("Serial ports", "How many the guest has.", least=0),
            "boot_menu": text("Boot menu", "Whether it is offered at the start.", *("true", "false")),
            "mem_encryption": text(
                "Encrypted memory", "Whether the host must encrypt the guest's memory.", *("true", "false")
            ),
            "mem_encryption_model": text("Encryption", "By which means.", *("amd-sev", "amd-sev-es")),
            "virtio_packed_ring": text(
                "Packed rings", "Whether virtio uses the packed form of its rings.", *("true", "false")
            ),
        },
    ),
    WellKnown(
        "OS::Compute::TPM",
        "TPM",
        "Whether the guest has an emulated TPM, and of which kind.",
        (flavor("hw:"), image("hw_")),
        {
            "tpm_model": text(
                "Model", "Its interface.", *("tpm-tis", "tpm-crb"), operators=["<or>"], default="tpm-tis"
            ),
            "tpm_version": text("Version", "Its version.", *("1.2", "2.0"), operators=["<or>"]),
        },
    ),
    WellKnown(
        "OS::Compute::Watchdog",
        "Watchdog",
        "The action when the guest no longer answers its watchdog.",
        _OF_GUEST,
        {
            "watchdog_action": text(
                "Action", "What is done to the guest.", *("disabled", "reset", "poweroff", "pause", "none")
            )
        },
    ),
    WellKnown(
        "OS::Compute::RandomNumberGenerator",
        "Random numbers",
        "Whether the guest may take random numbers of its host, and how many.",
        (flavor(),),
        {
            "hw_rng:allowed": truth("Allowed", "Whether it may."),
            "hw_rng:rate_bytes": integer("Bytes", "How many bytes it may take in a period.", least=0),
            "hw_rng:rate_period": integer("Period", "Milliseconds of a period.", least=0),
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
                "How much of the host's processors its vCPUs have.",
                {
                    "quota:cpu_shares": integer("Shares", "Weight beside the other guests of the host.", least=0),
                    "quota:cpu_period": integer("Period", "Microseconds of a period.", least=1000, most=1_000_000),
                    "quota:cpu_quota": integer("Quota", "Microseconds that each vCPU may run in a period."),
                },
            ),
            Group(
                "Disk QoS",
                "How much its disks are read and written.",
                {
                    **_limits("disk", "Bytes a second.", "read_bytes_sec", "write_bytes_sec", "total_bytes_sec"),
                    **_limits("disk", "Requests a second.", "read_iops_sec", "write_iops_sec", "total_iops_sec"),
                },
            ),
            Group(
                "Virtual Interface QoS",
                "How much its interfaces send and receive.",
                {
                    **_limits("vif", "Kilobytes a second.", "inbound_average", "inbound_peak"),
                    **_limits("vif", "Kilobytes a second.", "outbound_average", "outbound_peak"),
                    **_limits("vif", "Kilobytes at a time.", "inbound_burst", "outbound_burst"),
                },
            ),
        ),
    ),
)
