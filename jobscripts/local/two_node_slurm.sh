#!/usr/bin/env bash
# A real Slurm on this host, with two nodes: munged, slurmctld and two slurmd, with state, key, logs and ports of their
# own. Touches no configuration of the system, needs no cgroups, and runs as root or as any user.
#
# usage: two_node_slurm.sh [--state DIR] [--cpus N] start | stop | status | run COMMAND [WORD...]
#   start   starts it and prints the line that points Slurm's commands at it
#   stop    cancels its jobs, ends all it started, and removes DIR; does nothing where none runs
#   status  prints its nodes and jobs; exit code 1 where it does not run
#   run     starts it, runs COMMAND with SLURM_CONF set, stops it; where it runs already, only runs COMMAND
#   --state DIR  of its files [zeropp-slurm-UID in $TMPDIR or the system's folder for such]; shorter than 80 characters
#   --cpus N     of each node, whatever the host has: they are shared [4]
# Needs slurmctld, slurmd, slurm-client and munge (Debian: cmake/setup.sh check). MPI programs of Debian's Open MPI run
# with `srun --mpi=pmix`; they need a transport without shared memory (jobscripts/systems/two-node-local.sh).
# Exits with 2 for a wrong command line, 3 when it does not start, else with 0 or the code of COMMAND.
set -euo pipefail
script=$(readlink -f "$0")
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$script"; }
fail() { echo "two_node_slurm: error: $2" >&2; exit "$1"; }

state=${TMPDIR:-/tmp}/zeropp-slurm-$(id -u) cpus=4
while [ $# -gt 0 ]; do
  case $1 in
    --state | --cpus)
      [ -n "${2:-}" ] || fail 2 "$1 needs a value"
      case $1 in
        --state) state=$(readlink -m -- "$2") ;;
        --cpus) cpus=$2 ;;
      esac
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) break ;;
  esac
done
[[ $cpus =~ ^[1-9][0-9]{0,3}$ ]] || fail 2 "--cpus '$cpus' is no number of CPUs"
[ ${#state} -lt 80 ] || fail 2 "--state $state is too long for a socket's name: choose one below 80 characters"
[[ $state != *[[:space:]#%,\"\'\\]* ]] || fail 2 "--state '$state': slurm.conf takes no blank, quote, comma, # or % in a path"
PATH=$PATH:/usr/sbin:/sbin
readonly marker=$state/made-by-two_node_slurm conf=$state/slurm.conf nodes=(zpp1 zpp2) patience=30
export SLURM_CONF=$conf

# Asks COMMAND... again until it succeeds; fails after `patience` seconds.
wait_until() {  # COMMAND...
  local end=$((SECONDS + patience))
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}

# The process of a pid file, where it is still the program that wrote it.
alive() {  # PIDFILE PROGRAM
  local pid name
  { read -r pid <"$1"; } 2>/dev/null || return 1
  { IFS= read -r -d '' name <"/proc/$pid/cmdline"; } 2>/dev/null || return 1  # empty where it has ended
  [ "${name##*/}" = "$2" ] && echo "$pid"
}

is_up() { [ -e "$marker" ] && alive "$state/slurmctld.pid" slurmctld >/dev/null; }
# shellcheck disable=SC2317  # called by wait_until
answers() { timeout 5 scontrol ping >/dev/null 2>&1; }
# shellcheck disable=SC2317
idle() { [ "$(timeout 5 sinfo --noheader --Node --format=%t 2>/dev/null | sort | uniq -c | tr -s ' ')" = ' 2 idle' ]; }
# shellcheck disable=SC2317
no_jobs() { [ -z "$(timeout 5 squeue --noheader 2>/dev/null)" ]; }
# shellcheck disable=SC2317
ended() { ! kill -0 "$1" 2>/dev/null || [ "$(ps -o stat= -p "$1" | cut -c1)" = Z ]; }

free_ports() {  # COUNT
  # None that the kernel gives to a socket which connects: that may come before a daemon takes its port, or while it is down.
  python3 -c 'import random, socket, sys
lowest_given = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
found = []
for port in random.sample(range(10000, max(lowest_given, 20000)), 1000):
    if len(found) < int(sys.argv[1]):
        with socket.socket() as one:
            try: one.bind(("", port))
            except OSError: continue
        found.append(port)
print(*found)' "$1"
}

write_configuration() {
  local user host ports
  user=$(id -un) host=$(hostname -s)
  read -ra ports < <(free_ports 3)
  cat >"$conf" <<CONF
ClusterName=zeropp-local
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$state/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$state/controller
SlurmctldPidFile=$state/slurmctld.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdPidFile=$state/%n/slurmd.pid
SlurmdLogFile=$state/%n/slurmd.log
SlurmdSpoolDir=$state/%n/spool
TmpFS=$state/%n/tmp
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
JobRequeue=1
KillWait=10
MinJobAge=3600
ReturnToService=2
NodeName=${nodes[0]} NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=$cpus State=UNKNOWN
NodeName=${nodes[1]} NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=$cpus State=UNKNOWN
PartitionName=local Nodes=${nodes[0]},${nodes[1]} Default=YES MaxTime=INFINITE State=UP
CONF
  # slurmd initializes a cgroup plugin although nothing here uses cgroups. The plugin for version 2 fails where no
  # cgroup file system is mounted, as in many containers; the plugin for version 1 does not look before it is used.
  echo "CgroupPlugin=$(cgroup_plugin)" >"$state/cgroup.conf"
}

cgroup_plugin() {  # Slurm 23.11 and later can do without any.
  local version
  version=$(slurmd -V | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
  if [ "$(printf '%s\n' 23.11 "$version" | sort -V | head -n 1)" = 23.11 ]; then echo disabled; else echo cgroup/v1; fi
}

# Starts a daemon. Where it fails, the message ends with the last line that it printed, or else logged.
start_daemon() {  # NAME LOG COMMAND...
  local name=$1 log=$2 printed="$state/$1.out" reason
  shift 2
  if "$@" </dev/null >"$printed" 2>&1; then return 0; fi
  reason=$(grep -v '^[[:space:]]*$' "$printed" | tail -n 1) || reason=$(tail -n 1 "$log" 2>/dev/null) ||
    reason='it says nothing'
  fail 3 "$name does not start: $reason"
}

start() {
  local program node
  for program in munged slurmctld slurmd srun sbatch python3; do
    command -v $program >/dev/null || fail 3 "no $program: apt-get install slurmctld slurmd slurm-client munge python3"
  done
  ! is_up || fail 2 "it runs already in $state: stop it first"
  if [ -e "$marker" ]; then stop; fi  # of one that was killed
  [ ! -e "$state" ] || [ -z "$(ls -A "$state")" ] || fail 2 "--state $state holds other files: choose a new folder"
  mkdir -p "$state"
  : >"$marker"
  trap 'stop' EXIT
  trap 'exit 130' INT TERM HUP
  mkdir -m 700 "$state/controller"
  for node in "${nodes[@]}"; do mkdir -p "$state/$node/spool" "$state/$node/tmp"; done
  (umask 077 && head -c 128 /dev/urandom >"$state/munge.key")
  write_configuration
  # Daemons hold no file of the caller, who may wait for the end of a pipe.
  # --force: the folder above may be closed to others, who have no business here.
  start_daemon munged "$state/munged.log" munged --force --socket="$state/munge.socket" \
    --key-file="$state/munge.key" --pid-file="$state/munged.pid" --log-file="$state/munged.log" \
    --seed-file="$state/munge.seed" --num-threads=2
  start_daemon slurmctld "$state/slurmctld.log" slurmctld -f "$conf"
  for node in "${nodes[@]}"; do
    start_daemon "slurmd of $node" "$state/$node/slurmd.log" slurmd -f "$conf" -N "$node"
  done
  wait_until answers || fail 3 "slurmctld does not answer: $(tail -n 1 "$state/slurmctld.log")"
  wait_until idle || fail 3 "the nodes do not come up: $(sinfo --noheader --Node --format='%N %t %E' 2>&1 | tr '\n' ' ')"
  trap - EXIT INT TERM HUP
}

# Asks the process to end, then makes it.
end_process() {  # PIDFILE PROGRAM
  local pid
  pid=$(alive "$1" "$2") || return 0
  kill -TERM "$pid" 2>/dev/null || return 0
  wait_until ended "$pid" || kill -KILL "$pid" 2>/dev/null || true
}

# Processes of its jobs: they carry its configuration and a job's id in their environment.
job_processes() {
  local file
  for file in /proc/[0-9]*/environ; do
    if grep -qzxF "SLURM_CONF=$conf" "$file" 2>/dev/null && grep -qz '^SLURM_JOB_ID=' "$file" 2>/dev/null; then
      echo "${file//[!0-9]/}"
    fi
  done
}

stop() {
  trap - EXIT
  local node left
  if [ ! -e "$marker" ]; then return 0; fi
  if is_up && answers; then
    squeue --noheader --format=%A 2>/dev/null | sort -u | xargs -r scancel --full --signal=KILL 2>/dev/null || true
    squeue --noheader --format=%A 2>/dev/null | sort -u | xargs -r scancel 2>/dev/null || true
    wait_until no_jobs || true
  fi
  for node in "${nodes[@]}"; do end_process "$state/$node/slurmd.pid" slurmd; done
  end_process "$state/slurmctld.pid" slurmctld
  mapfile -t left < <(job_processes)
  [ ${#left[@]} -eq 0 ] || kill -KILL "${left[@]}" 2>/dev/null || true
  end_process "$state/munged.pid" munged
  rm -rf -- "$state"
}

status() {
  is_up || { echo "no Slurm runs in $state"; return 1; }
  echo "export SLURM_CONF=$conf"
  sinfo --Node --format='%N %t %c'
  squeue
}

case ${1:-} in
  start | stop | status)
    [ $# -eq 1 ] || fail 2 "$1 takes no argument '$2'"
    "$1"
    [ "$1" != start ] || echo "export SLURM_CONF=$conf"
    ;;
  run)
    shift
    [ $# -gt 0 ] || fail 2 "run needs a command (try --help)"
    if is_up; then exec "$@"; fi
    start
    child=''
    trap 'stop' EXIT
    trap '[ -z "$child" ] || { kill -TERM "$child" 2>/dev/null || true; wait "$child" || true; }; exit 130' INT TERM HUP
    "$@" &
    child=$!
    wait "$child"
    ;;
  *) fail 2 "unknown argument '${1:-}' (try --help)" ;;
esac
