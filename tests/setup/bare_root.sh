#!/usr/bin/env bash
# Shows that nothing is needed by hand: makes a bare Debian 12 root, clones HEAD into it and runs the
# README's two commands there. Needs root, mmdebstrap and a Debian mirror.
#
# usage: tests/setup/bare_root.sh DIR [COMMAND]
#   DIR      where the root is made; kept afterwards, and used again as it is when it exists
#   COMMAND  what to run in the clone; default: ./demo && ./check
# The apt sources are those of this machine: SOURCES=FILE names another file.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tree=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
mkdir -p "$(dirname "$1")"
root=$(realpath -m "$1")
command=${2:-./demo && ./check}
sources=${SOURCES:-/etc/apt/sources.list.d/debian.sources}

if [ ! -d "$root" ]; then
  mmdebstrap --variant=minbase bookworm "$root" "$sources"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
rm -rf "$root/src"
git clone --quiet --no-local "$tree" "$root/src/zeropp"

# In namespaces of its own: the mounts and whatever still runs vanish with the shell.
# shellcheck disable=SC2016  # $1 and $2 are for the inner shell
exec unshare --mount --pid --fork bash -euc '
  mount --bind "$1" "$1"  # a root that is a mount point, so that tests can have mount namespaces
  mount -t proc proc "$1/proc"
  mount --rbind /sys "$1/sys"
  mount --rbind /dev "$1/dev"
  # Open MPI names its shared memory by process ids, which programs outside may have too.
  mount -t tmpfs tmpfs "$1/dev/shm"
  exec env -i HOME=/root TERM="${TERM:-dumb}" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$1" bash -euc "cd /src/zeropp; $2"
' bare_root "$root" "$command" </dev/null
