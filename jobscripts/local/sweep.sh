#!/usr/bin/env bash
# Measures collectives on one host with several GPUs: the vendor's own, those of zeropp with and without codecs, and
# PyTorch's over NCCL beside them, on one node and on emulated nodes. Prints a table a layout, and keeps everything in
# results/MACHINE/sweep/: what measured.sh keeps of a study, and for each call a folder SESSION/ with tables, pictures
# and crossings.md (from which size on a codec pays).
#
# usage: jobscripts/local/sweep.sh [OPTION...] [-- FLAG...]
#   --gpus N            ranks, a GPU each [all that nvidia-smi lists]
#   --layouts LIST      of node (1 x N), emulated (2 x N/2 over sockets on loopback), emulated-4x4 (the same with 4
#                       threads x 4 sockets) [node,emulated]
#   --collectives LIST  of all_gather,reduce_scatter [both]
#   --algorithms LIST   of zpp_info [on one node native, direct, native-images and 1-hop; on several what fits them: auto]
#   --codecs LIST       [none,int8:256,int4:128]
#   --depths LIST       chunks in which operations are pipelined, a call each [1]
#   --type T            float, half, bfloat16 [bfloat16]
#   --sizes FROM:TO     on one node; each four times the one before [1K:4G]
#   --emulated-sizes FROM:TO  [1K:1G]
#   --check-maxbytes S  larger ones are timed, not checked: the CPU checks every value [64M]
#   --max-seconds S     of the samples of one measurement [0.1]
#   --peer P            torch (zpp-validate peer-collectives), or none [torch]
#   --limit SECONDS     time limit of one command [300]
#   --backend B         cuda, or host to try the script without GPUs [cuda]
#   --build DIR         of zeropp [build-cuda]
#   --python FILE       Python with PyTorch, for the peer [python3]
#   --table-python FILE Python for tables and pictures; the latter need h5py, NumPy, SciPy and matplotlib [that of the build]
#   --results DIR       [results]
#   --machine NAME      [N and the GPU's name]
#   --dry-run           print the commands and do nothing
#   FLAG...             passed on to zpp_sweep
# LIST is comma-separated. Exits with 1 when a run failed or is INVALID.
set -euo pipefail
call=$(printf '%q ' "$0" "$@")
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

gpus='' layouts=node,emulated collectives=all_gather,reduce_scatter algorithms='' codecs=none,int8:256,int4:128 depths=1 type=bfloat16
sizes=1K:4G emulated_sizes=1K:1G check_maxbytes=64M max_seconds=0.1 peer=torch limit=300 backend=cuda build=build-cuda
python=python3 table_python='' results=results machine='' dry_run=0 extra=()
read_options 'gpus layouts collectives algorithms codecs depths type sizes emulated-sizes check-maxbytes max-seconds peer limit backend build python table-python results machine --' "$@"
table_python=${table_python:-$(python_of_build "$build")}
case $backend in
  cuda) transport=nccl peer_device=cuda ;;
  host) transport=mpi peer_device=cpu ;;
  *) fail "--backend is cuda or host, not '$backend'" ;;
esac
case $peer in torch | none) ;; *) fail "--peer is torch or none, not '$peer'" ;; esac
for range in "$sizes" "$emulated_sizes"; do
  [[ $range =~ ^[0-9]+[KMG]?:[0-9]+[KMG]?$ ]] || fail "sizes are FROM:TO in bytes, K, M or G, not '$range'"
done
# shellcheck source=jobscripts/local/shapes.sh
source jobscripts/local/shapes.sh
study=$results/$machine/sweep
session=$(date -u +%Y%m%dT%H%M%SZ)
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh
[ $dry_run -eq 1 ] || [ -x "$build/bin/zpp_sweep" ] ||
  fail "no $build/bin/zpp_sweep: cmake --preset cuda && cmake --build --preset cuda --target zpp_sweep zpp_info"
split "$depths"; depth_list=("${list[@]}")
for depth in "${depth_list[@]}"; do [[ $depth =~ ^[1-9][0-9]*$ ]] || fail "--depths are numbers of chunks, not '$depth'"; done
split "$layouts"; layout_list=("${list[@]}")
for layout in "${layout_list[@]}"; do layout_flags "$layout"; done  # names are tried before anything runs

declare -A one_node=([all_gather]="direct,native-images" [reduce_scatter]="1-hop")
split "$collectives"; collective_list=("${list[@]}")
for collective in "${collective_list[@]}"; do
  [ -n "${one_node[$collective]:-}" ] || fail "--collectives are of all_gather, reduce_scatter, not '$collective'"
done
algorithms_of() {  # LAYOUT
  if [ -n "$algorithms" ]; then
    echo "$algorithms"
  elif [ "$1" = node ]; then
    local names=native collective
    for collective in "${collective_list[@]}"; do names+=,${one_node[$collective]}; done
    echo "$names"
  else
    echo auto
  fi
}

# The launcher gives ranks time to end between two rows, which keeps what they measured, before it kills them: less than
# the time limit does.
export OMPI_MCA_odls_base_sigkill_timeout=15

lacks_for_pictures=''
if [ $dry_run -eq 0 ]; then
  [ "$peer" = none ] || need_modules "$python" --python torch
  lacks_for_pictures=$(missing_modules "$table_python" --table-python h5py matplotlib numpy scipy) || exit
  [ -z "$lacks_for_pictures" ] || echo "sweep: warning: no pictures will be made: '$table_python' has no Python module $lacks_for_pictures" >&2
fi

warmup=5 port=29600
measure() {  # LAYOUT; leaves the JSONs that came about in `files`
  layout_flags "$1"
  local range=$sizes
  [ "$1" = node ] || range=$emulated_sizes
  local -a shared=(-b "${range%:*}" -e "${range#*:}" -f 4 -w "$warmup" -d "$type" --collective "$collectives"
    --max-seconds "$max_seconds" "${declared[@]}")
  files=()
  local depth
  for depth in "${depth_list[@]}"; do
    run_measured "$type" "$1" zeropp "sweep-depth-$depth" "$warmup" env "${environment[@]}" "${launch[@]}" \
      "$build/bin/zpp_sweep" "${shared[@]}" --algorithm "$(algorithms_of "$1")" --codec "$codecs" --pipeline-depth "$depth" --check-maxbytes "$check_maxbytes" \
      --backend "$backend" --transport "$transport" "${extra[@]}" --output "$scratch" --json @JSON@
    collect
  done
  [ "$peer" = torch ] || return 0
  port=$((port + 1))
  run_measured "$type" "$1" peer torch "$warmup" env MASTER_PORT=$port "${environment[@]}" "${launch[@]}" "$python" \
    validation/zpp-validate peer-collectives "${shared[@]}" --device "$peer_device" --json @JSON@
  collect
}
code=0
collect() {
  [ $dry_run -eq 0 ] || return 0
  [ "$last_code" -eq 0 ] || code=1
  [ ! -e "$study/runs/$last_stem.json" ] || files+=("$study/runs/$last_stem.json")
}

scratch=out/sweep tables=$study/$session
all=()
open_study "$call" "$build/bin/zpp_info"
[ $dry_run -eq 1 ] || mkdir -p "$scratch" "$tables"
for layout in "${layout_list[@]}"; do
  measure "$layout"
  [ ${#files[@]} -gt 0 ] || continue
  all+=("${files[@]}")
  "$table_python" validation/zpp-validate sweep-table "${files[@]}" --output "$tables/$layout.md" || code=1
done
[ ${#all[@]} -gt 0 ] || exit $code
pictures=("$table_python" validation/zpp-validate plot "${all[@]}" --output "$tables")
if [ -z "$lacks_for_pictures" ]; then
  "${pictures[@]}" || code=1
else
  echo "sweep: no pictures: '$table_python' has no Python module $lacks_for_pictures. Elsewhere: ${pictures[*]}" >&2
fi
exit $code
