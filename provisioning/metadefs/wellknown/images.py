"""Properties of images."""

from provisioning.metadefs.wellknown.words import WellKnown, image, integer, text, truth, volume

_UUID = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"
_CD_BUSES = ("ide", "sata", "scsi", "usb")
_BUSES = ("fdc", "ide", "sata", "scsi", "usb", "virtio")

NAMESPACES = (
    WellKnown(
        "OS::Glance::CommonImageProperties",
        "Common image properties",
        "Properties of any image, independent of the hypervisor.",
        (),
        {
            "kernel_id": text("Kernel", "Id of the image, of format aki, whose kernel boots this one.", pattern=_UUID),
            "ramdisk_id": text("Ramdisk", "Id of the image, of format ari, that boots with the kernel.", pattern=_UUID),
            "instance_uuid": text("Source server", "Id of the server whose disk was copied to this image."),
            "architecture": text("Architecture", "Older name of hw_architecture: the processor that the image needs."),
            "os_distro": text("Distribution", "Short name of the operating system in lower case: debian, rocky."),
            "os_version": text("Version", "Version of the operating system, as written by its vendor."),
            "description": text("Description", "Purpose of the image, in one sentence."),
            "hw_cpu_mode": text("CPU mode", "How the processor of the guest is derived from the host's."),
            "cinder_encryption_key_id": text("Encryption key", "Id of the key of an encrypted volume's image."),
            "cinder_encryption_key_deletion_policy": text(
                "Deletion of the key",
                "Whether that key is deleted with the image.",
                *("on_image_deletion", "do_not_delete"),
            ),
        },
    ),
    WellKnown(
        "OS::OperatingSystem",
        "Operating system",
        "The operating system of the image, and its login user.",
        (image(), volume()),
        {
            "os_distro": text("Distribution", "Short name of the operating system in lower case."),
            "os_version": text("Version", "Version of the operating system, as written by its vendor."),
            "os_admin_user": text(
                "Login user",
                "The user for logins with the key pair and for password changes; root by default. Pages and"
                " the command novella ssh use it.",
            ),
        },
    ),
    WellKnown(
        "OS::Compute::Hypervisor",
        "Hypervisor",
        "Which hypervisors can run the image.",
        (image(),),
        {
            "hypervisor_type": text(
                "Hypervisor",
                "Only hosts with this hypervisor are chosen; those with KVM also run images for qemu. The newer name is"
                " img_hv_type.",
                *("kvm", "qemu"),
            ),
            "vm_mode": text("Virtual machine mode", "How the guest interacts with the hypervisor.", "hvm"),
        },
    ),
    WellKnown(
        "Novella::Image",
        "Hosts and rescue",
        "Other image properties that the scheduler and the hosts of this cloud use.",
        (image(),),
        {
            "hw_architecture": text(
                "Processor",
                "Only hosts with this processor are chosen.",
                *("x86_64", "i686", "aarch64", "armv7l", "ppc64le", "s390x", "riscv64"),
            ),
            "img_hv_type": text("Hypervisor", "Only hosts with this hypervisor are chosen.", "kvm", "qemu"),
            "img_hv_requested_version": text(
                "Version of the hypervisor",
                "Only hosts whose hypervisor version meets all conditions are chosen, such as >=6.0,<9.",
            ),
            "hw_rescue_device": text(
                "Rescue device",
                "Device type of this image when it rescues a server; the server's disks keep their names.",
                *("cdrom", "disk"),
            ),
            "hw_rescue_bus": text("Rescue bus", "Disk bus of the rescue device.", *_BUSES),
        },
    ),
    WellKnown(
        "OS::Compute::InstanceData",
        "Instance configuration",
        "How a guest of the image gets its configuration, and is quiesced for snapshots.",
        (image(), volume()),
        {
            "img_config_drive": text("Configuration drive", "Whether the guest needs it.", *("optional", "mandatory")),
            "os_require_quiesce": text("Quiesce", "Whether snapshots must wait for the guest's agent.", *("yes", "no")),
        },
    ),
    WellKnown(
        "OS::Compute::GuestShutdownBehavior",
        "Shutdown",
        "How the guest is stopped.",
        (image(),),
        {
            "os_shutdown_timeout": integer(
                "Shutdown timeout", "Seconds that the guest has to shut down cleanly.", least=0
            )
        },
    ),
    WellKnown(
        "OS::Compute::LibvirtImage",
        "Libvirt: images",
        "Options of the libvirt driver for images.",
        (image(),),
        {
            "hw_qemu_guest_agent": text(
                "Guest agent",
                "Whether QEMU's agent runs in the guest: trim, password changes and quiesced snapshots need it.",
                *("yes", "no"),
            ),
            "os_command_line": text("Kernel command line", "Command line of the kernel in kernel_id."),
            "os_type": text("Family", "Family of the operating system.", *("linux", "windows")),
            "hw_cdrom_bus": text("CD-ROM bus", "Disk bus of CD-ROM drives.", *_CD_BUSES),
            "hw_disk_bus": text("Disk bus", "Bus of the disks.", *_BUSES),
            "hw_scsi_model": text("SCSI controller", "Model of the SCSI controller."),
            "hw_firmware_type": text("Firmware", "The firmware that boots the guest.", *("bios", "uefi")),
            "os_secure_boot": text(
                "Secure Boot", "Whether UEFI boots only signed systems.", *("disabled", "optional", "required")
            ),
            "hw_firmware_stateless": truth("Stateless firmware", "Whether the firmware stores no settings."),
            "hw_machine_type": text("Machine", "Machine type of the guest."),
            "hw_rng_model": text("Random numbers", "Model of the random number generator."),
            "hw_video_model": text(
                "Graphics",
                "Model of the graphics adapter.",
                *("bochs", "cirrus", "gop", "none", "qxl", "vga", "virtio", "vmvga"),
            ),
            "hw_video_ram": integer("Graphics memory", "MiB of the graphics adapter.", least=0),
            "hw_vif_model": text(
                "Interface",
                "Model of the network interfaces.",
                *("e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio", "vmxnet3"),
            ),
            "hw_vif_multiqueue_enabled": text(
                "Several queues", "Whether network interfaces have a queue for each vCPU.", *("true", "false")
            ),
            "hw_pmu": text("Counters", "Whether the guest sees performance counters.", *("true", "false")),
            "hw_pointer_model": text("Pointer", "Model of the pointer.", "usbtablet"),
            "hw_input_bus": text("Input", "Bus of the keyboard and the tablet.", *("usb", "virtio")),
            "hw_sound_model": text("Sound", "Model of the sound card.", "ac97"),
            "hw_usb_model": text("USB", "Model of the USB controller.", *("none", "nec-xhci", "qemu-xhci")),
            "hw_cpu_model": text("CPU model", "Name of the model for hw_cpu_mode custom."),
            "hw_cpu_model_extra_flags": text("CPU features", "Features that are added or removed: +aes,-avx2."),
            "hw_time_hpet": truth("HPET", "Whether the guest has an HPET timer."),
            "img_hide_hypervisor_id": text(
                "Hide the hypervisor", "Whether the hypervisor's identity is hidden from the guest.", *("yes", "no")
            ),
        },
    ),
    WellKnown(
        "OS::Glance::Signatures",
        "Signatures",
        "The signature of the image's data. It is stored, but this cloud does not verify it.",
        (image(),),
        {
            "img_signature": text("Signature", "The signature of the data, in base64."),
            "img_signature_certificate_uuid": text("Certificate", "Id of the certificate of the signing key."),
            "img_signature_hash_method": text(
                "Hash", "The hash that was signed.", *("SHA-224", "SHA-256", "SHA-384", "SHA-512")
            ),
            "img_signature_key_type": text(
                "Key",
                "The type of the key.",
                *("RSA-PSS", "DSA", "ECC_SECT571K1", "ECC_SECT409K1", "ECC_SECT571R1", "ECC_SECT409R1"),
                *("ECC_SECP521R1", "ECC_SECP384R1"),
            ),
        },
    ),
    WellKnown(
        "OS::Cinder::Volumetype",
        "Volume type",
        "Volume type of volumes created from the image.",
        (image("cinder_"),),
        {"img_volume_type": text("Volume type", "Name of the type.")},
    ),
)
