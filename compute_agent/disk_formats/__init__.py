"""The disk formats that a host takes, and the checks that an image passes before any program opens it.

The portal runs them over what is uploaded, a host over what it has fetched, so that both refuse the same files.
oslo's inspectors recognise the formats and judge what the first sectors show. They leave out what would make QEMU read
another file (parents of VHD, VHDX and VDI, a VMDK's hidden parent or second extent) and whether the file is whole;
``qemu-img`` would open those files itself, and a portal has none. The modules named after formats check the rest.
"""
