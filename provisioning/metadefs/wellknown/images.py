"""What images say of themselves."""

from provisioning.metadefs.wellknown.words import WellKnown, image, integer, text, truth, volume

_UUID = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"
_CD_BUSES = ("ide", "sata", "scsi", "usb")
_BUSES = ("fdc", "ide", "sata", "scsi", "usb", "virtio")

NAMESPACES = (
    WellKnown(
        "OS::Glance::CommonImageProperties",
        "Common image properties",
        "What any image may say of itself, whatever runs it.",
        (),
        {
            "kernel_id": text("Kernel", "Id of the image, of format aki, whose kernel boots this one.", pattern=_UUID),
            "ramdisk_id": text("Ramdisk", "Id of the image, of format ari, that the kernel is given.", pattern=_UUID),
            "instance_uuid": text("Made of server", "Id of the server whose disk the image is a copy of."),
            "architecture": text("Architecture", "Older name of hw_architecture: the processor that the image needs."),
            "os_distro": text("Distribution", "Short name of the operating system, in small letters: debian, rocky."),
            "os_version": text("Version", "Version of the operating system, as its maker writes it."),
            "description": text("Description", "What the image is for, in a sentence."),
            "hw_cpu_mode": text("CPU mode", "How the guest's processor is made up."),
            "cinder_encryption_key_id": text("Encryption key", "Id of the key of an encrypted volume's image."),
            "cinder_encryption_key_deletion_policy": text(
                "Deletion of the key",
                "Whether that key goes with the image.",
                *("on_image_deletion", "do_not_delete"),
            ),
        },
    ),
    WellKnown(
        "OS::OperatingSystem",
        "Operating system",
        "Which operating system is in the image, and who signs in there.",
        (image(), volume()),
        {
            "os_distro": text("Distribution", "Short name of the operating system, in small letters."),
            "os_version": text("Version", "Version of the operating system, as its maker writes it."),
            "os_admin_user": text(
                "Login user",
                "Who signs in with the key pair, and whose password is changed; root where nothing is said. Pages and"
                " the command novella ssh read it.",
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
                "Only hosts with this hypervisor are chosen; those with KVM run images for qemu, too. The newer name is"
                " img_hv_type.",
                *("kvm", "qemu"),
            ),
            "vm_mode": text("Virtual machine mode", "How the guest meets its hypervisor.", "hvm"),
        },
    ),
    WellKnown(
        "Novella::Image",
        "Hosts and rescue",
        "What the scheduler of this cloud and its hosts read of an image beside the well-known properties.",
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
                "Only hosts are chosen whose hypervisor's version meets all of these, as >=6.0,<9.",
            ),
            "hw_rescue_device": text(
                "Rescue device",
                "As what a server gets this image when it is rescued; its own disks keep their names then.",
                *("cdrom", "disk"),
            ),
            "hw_rescue_bus": text("Rescue bus", "By which bus it gets it.", *_BUSES),
        },
    ),
    WellKnown(
        "OS::Compute::InstanceData",
        "Instance configuration",
        "How a guest of the image learns what it is to be, and is stopped for a moment.",
        (image(), volume()),
        {
            "img_config_drive": text("Configuration drive", "Whether the guest needs one.", *("optional", "mandatory")),
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
                "Shutdown timeout", "Seconds that the guest has to go down by itself.", least=0
            )
        },
    ),
    WellKnown(
        "OS::Compute::LibvirtImage",
        "Libvirt: images",
        "What the driver for libvirt may be told by an image.",
        (image(),),
        {
            "hw_qemu_guest_agent": text(
                "Guest agent",
                "Whether QEMU's agent runs in the guest: trim, new passwords and quiet snapshots need it.",
                *("yes", "no"),
            ),
            "os_command_line": text("Kernel command line", "What the kernel that kernel_id names is told."),
            "os_type": text("Family", "Family of the operating system.", *("linux", "windows")),
            "hw_cdrom_bus": text("CD-ROM bus", "Bus of the drive that an image of a CD is put into.", *_CD_BUSES),
            "hw_disk_bus": text("Disk bus", "Bus of disks.", *_BUSES),
            "hw_scsi_model": text("SCSI controller", "Model of the controller of the bus scsi."),
            "hw_firmware_type": text("Firmware", "The firmware that boots the guest.", *("bios", "uefi")),
            "os_secure_boot": text(
                "Secure Boot", "Whether UEFI starts signed systems only.", *("disabled", "optional", "required")
            ),
            "hw_firmware_stateless": truth("Stateless firmware", "Whether the firmware keeps no settings."),
            "hw_machine_type": text("Machine", "Model of the machine."),
            "hw_rng_model": text("Random numbers", "Model of the source of random numbers."),
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
                "Several queues", "Whether interfaces have a queue for each vCPU.", *("true", "false")
            ),
            "hw_pmu": text("Counters", "Whether the guest sees performance counters.", *("true", "false")),
            "hw_pointer_model": text("Pointer", "Model of the pointer.", "usbtablet"),
            "hw_input_bus": text("Input", "Bus of the keyboard and the tablet.", *("usb", "virtio")),
            "hw_sound_model": text("Sound", "Model of the sound card.", "ac97"),
            "hw_usb_model": text("USB", "Model of the USB controller.", *("none", "nec-xhci", "qemu-xhci")),
            "hw_cpu_model": text("CPU model", "Name of the model for hw_cpu_mode custom."),
            "hw_cpu_model_extra_flags": text("CPU features", "Features added or taken away: +aes,-avx2."),
            "hw_time_hpet": truth("HPET", "Whether the guest has this timer."),
            "img_hide_hypervisor_id": text(
                "Hide the hypervisor", "Whether the guest is not told what runs it.", *("yes", "no")
            ),
        },
    ),
    WellKnown(
        "OS::Glance::Signatures",
        "Signatures",
        "By which signature the image's data can be checked. This cloud keeps it, and checks none.",
        (image(),),
        {
            "img_signature": text("Signature", "The signature of the data, in base64."),
            "img_signature_certificate_uuid": text("Certificate", "Id of the certificate whose key made it."),
            "img_signature_hash_method": text(
                "Hash", "The hash that was signed.", *("SHA-224", "SHA-256", "SHA-384", "SHA-512")
            ),
            "img_signature_key_type": text(
                "Key",
                "The kind of key.",
                *("RSA-PSS", "DSA", "ECC_SECT571K1", "ECC_SECT409K1", "ECC_SECT571R1", "ECC_SECT409R1"),
                *("ECC_SECP521R1", "ECC_SECP384R1"),
            ),
        },
    ),
    WellKnown(
        "OS::Cinder::Volumetype",
        "Volume type",
        "Of which type volumes are that are made of the image.",
        (image("cinder_"),),
        {"img_volume_type": text("Volume type", "Name of the type.")},
    ),
)
