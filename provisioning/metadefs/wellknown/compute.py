"""What operators say of hosts by aggregates, and ask of them by flavors."""

from provisioning.metadefs.wellknown.words import WellKnown, aggregate, flavor, integer, number, several, text

_FEATURES = (
    *("3dnow", "abm", "adx", "aes", "apic", "arat", "avx", "avx2", "avx512bw", "avx512cd", "avx512dq", "avx512f"),
    *("avx512vl", "bmi1", "bmi2", "clflushopt", "clwb", "cmov", "cx16", "erms", "f16c", "fma", "fma4", "fpu"),
    *("fsgsbase", "fxsr", "hle", "ht", "hypervisor", "invpcid", "lahf_lm", "lm", "mmx", "movbe", "mpx", "msr", "mtrr"),
    *("nx", "pae", "pat", "pcid", "pclmulqdq", "pdpe1gb", "pge", "popcnt", "pse", "pse36", "rdrand", "rdseed"),
    *("rdtscp", "rtm", "sep", "sha_ni", "smap", "smep", "sse", "sse2", "sse4_1", "sse4_2", "sse4a", "ssse3", "svm"),
    *("syscall", "tbm", "tsc", "tsc_adjust", "tsc_deadline_timer", "vme", "vmx", "x2apic", "xop", "xsave"),
)

NAMESPACES = (
    WellKnown(
        "OS::Compute::HostCapabilities",
        "Host capabilities",
        "What a host must be able to do for a flavor; the scheduler compares it with what hosts report.",
        (flavor("capabilities:"), aggregate("aggregate_instance_extra_specs:")),
        {
            "cpu_info:vendor": text("Vendor", "Who made the processor.", *("Intel", "AMD"), operators=["<or>"]),
            "cpu_info:model": text("Model", "Model of the processor, by libvirt's name.", operators=["<or>"]),
            "cpu_info:arch": text(
                "Architecture", "What the processor is.", *("x86_64", "i686", "aarch64"), operators=["<or>"]
            ),
            "cpu_info:topology:sockets": integer("Sockets", "How many sockets.", least=1),
            "cpu_info:topology:cores": integer("Cores", "How many cores of a socket.", least=1),
            "cpu_info:topology:threads": integer("Threads", "How many threads of a core.", least=1),
            "cpu_info:features": several("Features", "What the processor can do.", *_FEATURES),
        },
    ),
    WellKnown(
        "OS::Compute::AggregateDiskFilter",
        "Disk of a host",
        "How much disk the hosts of an aggregate promise of what they have.",
        (aggregate(),),
        {
            "disk_allocation_ratio": number(
                "Ratio", "Disk that is promised, of the disk there is; the least of a host's aggregates.", minimum=0
            )
        },
    ),
    WellKnown(
        "OS::Compute::AggregateIoOpsFilter",
        "Disk work of a host",
        "How many servers of a host of an aggregate are built, resized or copied at once.",
        (aggregate(),),
        {
            "max_io_ops_per_host": integer(
                "Most at once", "Instances whose disks are being worked on.", least=1, default="8"
            )
        },
    ),
    WellKnown(
        "OS::Compute::AggregateNumInstancesFilter",
        "Instances of a host",
        "How many servers a host of an aggregate takes.",
        (aggregate(),),
        {"max_instances_per_host": integer("Most instances", "Instances of one host.", least=0)},
    ),
)
