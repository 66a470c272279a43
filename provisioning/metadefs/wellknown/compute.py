"""Properties of host aggregates, and requirements of flavors for hosts."""

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
        "Capabilities that a flavor requires of a host; the scheduler compares them with the hosts' reports.",
        (flavor("capabilities:"), aggregate("aggregate_instance_extra_specs:")),
        {
            "cpu_info:vendor": text("Vendor", "Vendor of the processor.", *("Intel", "AMD"), operators=["<or>"]),
            "cpu_info:model": text("Model", "Model of the processor, as named by libvirt.", operators=["<or>"]),
            "cpu_info:arch": text(
                "Architecture", "Architecture of the processor.", *("x86_64", "i686", "aarch64"), operators=["<or>"]
            ),
            "cpu_info:topology:sockets": integer("Sockets", "Number of sockets.", least=1),
            "cpu_info:topology:cores": integer("Cores", "Number of cores of each socket.", least=1),
            "cpu_info:topology:threads": integer("Threads", "Number of threads of each core.", least=1),
            "cpu_info:features": several("Features", "Features of the processor.", *_FEATURES),
        },
    ),
    WellKnown(
        "OS::Compute::AggregateDiskFilter",
        "Disk of a host",
        "How far the hosts of an aggregate overcommit their disks.",
        (aggregate(),),
        {
            "disk_allocation_ratio": number(
                "Ratio", "Ratio of allocatable to physical disk; the minimum of the host's aggregates.", minimum=0
            )
        },
    ),
    WellKnown(
        "OS::Compute::AggregateIoOpsFilter",
        "I/O operations of a host",
        "How many servers may be built, resized or copied at the same time on a host of an aggregate.",
        (aggregate(),),
        {
            "max_io_ops_per_host": integer(
                "Maximum", "Instances with a disk operation in progress.", least=1, default="8"
            )
        },
    ),
    WellKnown(
        "OS::Compute::AggregateNumInstancesFilter",
        "Instances of a host",
        "How many servers may run on a host of an aggregate.",
        (aggregate(),),
        {"max_instances_per_host": integer("Maximum", "Instances on one host.", least=0)},
    ),
)
