"""Block devices of servers, and images with the data of disks."""
