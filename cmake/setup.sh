#!/usr/bin/env bash
# Installs with apt what zeropp needs and this machine lacks; fetches the headers of cuDNN's front end where nvcc
# is found, and for the check clang-tidy and a package that a test compares codecs with; does nothing when all is there.
#
# usage: cmake/setup.sh demo|check
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
log=$root/out/setup.log

required=(
  g++ cmake ninja-build git ca-certificates
  openmpi-bin libopenmpi-dev libhdf5-dev libtrilinos-kokkos-dev libopenblas-dev libssl-dev
  libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev libgtest-dev libgmock-dev
  liburing-dev
  python3 python3-numpy python3-h5py python3-matplotlib python3-scipy
  python3-jinja2 python3-prometheus-client
)
case ${1:-} in
  demo) optional=(dict-gcide iproute2) ;;  # the text to train on, else a built-in source; emulated hosts
  check)  # without them, tests are skipped and builds start from nothing
    optional=(ccache clang-format shellcheck pyflakes3 python3-venv python3-pip python3-dev pybind11-dev
      python3-sphinx python3-myst-parser furo
      slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge iproute2 btrfs-progs)
    ;;
  *) echo "usage: cmake/setup.sh demo|check" >&2; exit 2 ;;
esac

PATH=$PATH:/usr/local/cuda/bin
if command -v nvcc >/dev/null; then
  python3 -m pip --version >/dev/null 2>&1 || optional+=(python3-pip)
fi

fail() { echo "setup: error: $*" >&2; exit 3; }

# Prints those of its arguments that are not installed.
missing() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

# Runs apt-get as root, never asking; its output goes to the log.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
    -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1 </dev/null
}

install_packages() {
  command -v apt-get >/dev/null ||
    fail "this is no Debian: install the counterparts of: ${required[*]}; then pass --no-setup"
  local needed wanted as_root package
  mapfile -t needed < <(missing "${required[@]}")
  mapfile -t wanted < <(missing "${optional[@]}")
  [ $((${#needed[@]} + ${#wanted[@]})) -gt 0 ] || return 0

  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
    [ -t 0 ] || as_root=(sudo -n)
    if ! "${as_root[@]}" true 2>/dev/null; then
      [ ${#needed[@]} -eq 0 ] ||
        fail "neither root nor sudo: ask an administrator to run: apt-get install ${needed[*]}"
      echo "setup: continuing without ${wanted[*]} (neither root nor sudo to install it)"
      return 0
    fi
  fi

  mkdir -p "$(dirname "$log")"
  : >"$log"
  echo "setup: installing ${needed[*]} ${wanted[*]} (apt-get; log in out/setup.log)"
  apt update || true  # a source that does not answer matters only if a package cannot be had
  if [ ${#needed[@]} -gt 0 ]; then
    apt install --no-install-recommends "${needed[@]}" ||
      fail "apt-get could not install ${needed[*]} ($(grep '^E:' "$log" | tail -1)):" \
           "check the network and /etc/apt/sources.list, then run this again"
  fi
  for package in "${wanted[@]}"; do
    apt install --no-install-recommends "$package" ||
      echo "setup: continuing without $package ($(grep '^E:' "$log" | tail -1))"
  done
}

install_packages
if command -v nvcc >/dev/null; then
  "$root/cmake/fetch_cudnn_frontend.sh" || true  # it has said what is missing; nothing needs it
fi
if [ "$1" = check ]; then
  "$root/cmake/fetch_python_package.sh" ml_dtypes "a test of the small floats" || true  # as above
  "$root/cmake/fetch_python_package.sh" clang_tidy "the test clang_tidy" || true
fi
