"""The disk formats that hosts accept, and the checks of an image before any program opens it.

The portal checks uploaded files, and a host checks downloaded files, so that both reject the same files. oslo's
inspectors recognise the formats and check the first sectors. They do not detect all references to other files that QEMU
would open (parents of VHD, VHDX and VDI, a VMDK's hidden parent or second extent), and do not check that the file is
complete. ``qemu-img`` cannot check this, because it opens the other files itself, and a portal does not have it. The
modules named after formats check the rest.
"""
