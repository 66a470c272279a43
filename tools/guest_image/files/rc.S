#!/bin/sh
# The guest's start, in running order: file systems, drivers, seed, network, metadata, identity, SSH, user data, banner.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
DONE=/var/lib/novella/instance-id
META=/run/metadata

uptime_now() { cut -d' ' -f1 /proc/uptime; }
say() { echo "$*" >/dev/console; }
meta() { awk -F'\t' -v path="$1" '$1 == path { print $2; exit }' $META 2>/dev/null; }

file_systems() {
  mount -t proc proc /proc
  mount -t sysfs sys /sys
  mkdir -p /dev/pts /dev/shm /var/lib/novella
  mount -t devpts devpts /dev/pts
  mount -t tmpfs tmpfs /run
  mkdir -p /run/seed
  : >/run/user-data
  : >$META
  # The partition was grown before it was mounted; the file system follows while it is in use.
  resize2fs "$(findfs LABEL=novella-root)" >/run/resize2fs.log 2>&1 &
}

drivers() {
  for module in $(cat /modules/order); do insmod "/modules/$module" 2>/dev/null; done
  acpid -c /etc/acpi -l /run/acpid.log 2>/dev/null
  [ ! -e /etc/fstab ] || mount -a 2>/run/mount.log
}

# A seed is a disk labelled cidata (NoCloud) or config-2 (OpenStack's config drive); either tree is read on either.
read_seed() {
  drive=$(findfs LABEL=cidata 2>/dev/null || findfs LABEL=CIDATA 2>/dev/null || findfs LABEL=config-2 2>/dev/null)
  [ -n "$drive" ] || return
  mount -t iso9660 -o ro "$drive" /run/seed 2>/dev/null || mount -t vfat -o ro "$drive" /run/seed 2>/dev/null || return
  source=drive
  os=/run/seed/openstack/latest
  if [ -e $os/meta_data.json ]; then
    awk -f /etc/json.awk $os/meta_data.json >$META
    [ -e $os/network_data.json ] && awk -f /etc/json.awk $os/network_data.json >/run/network-data
    [ -e $os/user_data ] && cp $os/user_data /run/user-data
    instance=$(meta uuid)
    name=$(meta hostname)
  elif [ -e /run/seed/meta-data ]; then
    case $(head -c1 /run/seed/meta-data) in
      '{') awk -f /etc/json.awk /run/seed/meta-data >$META;;
      *) awk -f /etc/yaml.awk /run/seed/meta-data >$META;;
    esac
    [ -e /run/seed/user-data ] && cp /run/seed/user-data /run/user-data
    instance=$(meta instance-id)
    name=$(meta local-hostname)
  fi
  umount /run/seed
}

# One card with an address that is not given by DHCP, as network_data.json tells.
static_address() {
  mac=$(cat "/sys/class/net/$1/address")
  awk -F'\t' -v mac="$mac" -v card="$1" -f /etc/static.awk /run/network-data 2>/dev/null >/run/static.$1
  [ -s /run/static.$1 ] && . /run/static.$1
}

network() {
  ip link set lo up
  for node in /sys/class/net/eth*; do
    [ -e "$node" ] || continue
    card=${node##*/}
    ip link set "$card" up
    static_address "$card" ||
      udhcpc -b -t 5 -T 1 -A 3 -O mtu -O staticroutes -i "$card" -p "/run/udhcpc.$card.pid" \
        -s /etc/udhcpc.script -x "hostname:${name%%.*}" >/dev/null 2>&1
  done
}

# Without a seed the metadata service says who we are (the EC2 tree: plain text).
read_service() {
  [ "$source" = none ] || return
  ip -4 -o addr show scope global | grep -q . || return
  url=http://169.254.169.254/2009-04-04
  ask() { timeout 4 wget -q -O - "$url/$1" 2>/dev/null; }
  instance=$(ask meta-data/instance-id)
  [ -n "$instance" ] || return
  source=service
  name=$(ask meta-data/local-hostname)
  ask user-data >/run/user-data
  printf 'public-keys/0\t%s\n' "$(ask meta-data/public-keys/0/openssh-key)" >$META
}

identity() {
  name=${name%%.*}
  hostname "${name:-novella}"
  hostname >/etc/hostname
  printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" >/etc/hosts
  umask 077
  mkdir -p /root/.ssh
  awk -F'\t' '$1 ~ /^public[-_]keys\// { print $2 }' $META | sed 's/\\n/\n/g' | grep -E '^(ssh|ecdsa|sk)-' >/run/keys
  [ -s /run/keys ] && mv /run/keys /root/.ssh/authorized_keys
  [ "$first" = yes ] && set_password
  umask 022
}

# The image has no password of its own; a seed may bring one.
set_password() {
  password=$(meta admin_pass)
  if [ -z "$password" ] && head -n1 /run/user-data | grep -q '^#cloud-config'; then
    password=$(sed -n "s/^password: *[\"']\{0,1\}\([^\"']*\)[\"']\{0,1\} *$/\1/p" /run/user-data | head -n1)
  fi
  [ -n "$password" ] || return
  hash=$(printf '%s' "$password" | mkpasswd -m sha512 -P 0) || return
  printf 'root:%s:19000:0:99999:7:::\n' "$hash" >/etc/shadow
}

secure_shell() {
  mkdir -p /etc/dropbear
  keys_only=-s
  grep -q '^root:\$' /etc/shadow && keys_only=
  dropbear -R $keys_only -E 2>/run/dropbear.log
}

# QEMU's guest agent, if the image's hw_qemu_guest_agent gave the guest its channel.
guest_agent() {
  for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name" 2>/dev/null)" = org.qemu.guest_agent.0 ] || continue
    qemu-ga -d -m virtio-serial -p "/dev/${port##*/}" -t /run -f /run/qemu-ga.pid -l /run/qemu-ga.log
  done
}

# A script runs once for each instance, as cloud-init does it.
user_data() {
  [ "$first" = yes ] || return
  [ "$(head -c2 /run/user-data)" = '#!' ] || return
  wait
  chmod 700 /run/user-data
  /run/user-data >/dev/console 2>&1
  say "user data: exit status $?"
}

banner() {
  addresses=$(ip -4 -o addr show scope global | awk '{ printf "%s%s", sep, $4; sep = " " }')
  say ""
  say "Novella guest on Linux $(uname -r), root disk $(df -h / | awk 'NR == 2 { print $2 }'), seed: $source"
  ip -4 -o addr show scope global | awk '{ print "  " $2 ": " $4 }' >/dev/console
  say "=== Novella guest: $(hostname) ${addresses:-no address} up $(uptime_now) s ==="
}

source=none
first=no
file_systems
drivers
read_seed
network
read_service
[ "$(cat $DONE 2>/dev/null)" = "${instance:-none}" ] || first=yes
identity
secure_shell
guest_agent
user_data
echo "${instance:-none}" >$DONE
banner
