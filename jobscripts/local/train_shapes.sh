#!/usr/bin/env bash
# Times training steps of GPT and Llama shapes on one host with GPUs: ZeRO-3, each part of ZeRO++, all of them, and PyTorch
# FSDP2 right before and after. Prints a table and keeps everything in results/MACHINE/STUDY/.
#
# usage: jobscripts/local/train_shapes.sh [OPTION...] [-- FLAG...]
#   --gpus N         ranks, a GPU each [all that nvidia-smi lists]
#   --shapes LIST    of 124m,1.64b,6.86b,9.4b,18.7b,17m,tiny,llama-1.5b,llama-8b,llama-tiny
#                    [1.64b,6.86b,18.7b]
#   --layouts LIST   of node (1 x N), emulated (2 x N/2 over sockets on loopback), emulated-4x4 (the same with 4
#                    threads x 4 sockets), network-RATE (2 emulated hosts of N/2 ranks, with --backend host; RATE as
#                    of netns.py, 1gbit say) [the first three]
#   --features LIST  of none, none-flat, none-2hop (other routes of ZeRO-3), qwz, hpz, qgz, qwz-qgz, all, and
#                    where there are nodes differences (all with weight differences), exact (exact differences, hpZ and
#                    qgZ) and exact-int8 (with gradients in int8) [none,qwz,hpz,qgz,all]
#   --peers LIST     of fsdp2, hybrid (shard inside a node, replicate across; where there are nodes) and plain (one GPU,
#                    without FSDP), each also with words of -compile, -autotune, -recompute, -cudnn (its attention), and
#                    but for plain -prefetch (two groups ahead), -pairs (two blocks a group), -root (one group of
#                    embedding and head), -keep (weights kept for backward), -symm (symmetric memory):
#                    fsdp2-compile-prefetch; or '' for none [auto: per shape]
#   --repeat N       rounds of peers, plugins and features in turn [1]; after the last one peers run once more, where
#                    anything else ran
#   --plugins LIST   of both (int8 weights and int4 gradients), lanes (no codec), none (no codec, over PyTorch's process
#                    groups), both-torch (over these), differences (of weights in int4, int4 gradients), exact (weights
#                    without loss, int8 gradients) and hybrid (hybrid sharding, int4 between nodes), of which the last
#                    three are for several nodes; each also with -hpz (backward gathers inside a node, where nodes have
#                    several ranks), -compile or -hpz-compile: FSDP2 with zeropp.torch.compress(), of the build's
#                    package [none]
#   --steps N        timed steps [20; 6 for what sends 9.4b or 18.7b uncompressed between nodes]
#   --warmup N       steps before them [5; there 2]
#   --limit SECONDS  time limit of one command [300]
#   --backend B      cuda, or host to try the script without GPUs [cuda]
#   --build DIR      of zeropp [build-cuda]
#   --python FILE    Python with PyTorch, for the peers [python3]
#   --table-python FILE  Python for the table [python3]
#   --results DIR    [results]
#   --machine NAME   [N and the GPU's name]
#   --study NAME     [train_shapes]
#   --dry-run        print the commands and do nothing
#   FLAG...          passed on to zpp_train
# LIST is comma-separated. Exits with the code of the table: 1 when a run failed or sent other bytes than predicted.
set -euo pipefail
call=$(printf '%q ' "$0" "$@")
cd "$(dirname "$(readlink -f "$0")")/../.."

# shellcheck source=jobscripts/local/options.sh
source jobscripts/local/options.sh

gpus='' shapes=1.64b,6.86b,18.7b layouts=node,emulated,emulated-4x4 features=none,qwz,hpz,qgz,all peers=auto plugins=''
repeat=1 steps='' warmup='' limit=300 backend=cuda build=build-cuda python=python3 table_python=python3
results=results machine='' study_name=train_shapes dry_run=0 extra=()
read_options 'gpus shapes layouts features peers plugins repeat steps warmup limit backend build python table-python results machine study=study_name --' "$@"

[[ $repeat =~ ^[1-9][0-9]*$ ]] || fail "--repeat '$repeat' is no number of rounds"
# Transports and the peers' device, by back end.
case $backend in
  cuda) transport=nccl plugin_transport=nccl peer_device=cuda ;;
  host) transport=mpi plugin_transport=torch peer_device=cpu ;;
  *) fail "--backend is cuda or host, not '$backend'" ;;
esac
# shellcheck source=jobscripts/local/shapes.sh
source jobscripts/local/shapes.sh
study=$results/$machine/$study_name
session=$(date -u +%Y%m%dT%H%M%SZ)
# shellcheck source=jobscripts/local/measured.sh
source jobscripts/local/measured.sh
[ $dry_run -eq 1 ] || [ -x "$build/bin/zpp_train" ] ||
  fail "no $build/bin/zpp_train: cmake --preset cuda && cmake --build --preset cuda --target zpp_train zpp_info"

peer_flags() {  # PEER
  local word
  local -a words
  IFS=- read -ra words <<<"$1"
  case ${words[0]} in
    fsdp2) peer=() ;;
    hybrid) peer=(--hybrid "$node_size") ;;
    plain) peer=(--plain) ;;
    *) fail "unknown peer '$1' (try --help)" ;;
  esac
  for word in "${words[@]:1}"; do
    case ${words[0]}.$word in
      *.compile | *.recompute) peer+=("--$word") ;;
      *.autotune) peer+=(--compile --autotune) ;;
      *.cudnn) peer+=(--attention cudnn) ;;
      plain.*) fail "unknown peer '$1' (try --help)" ;;
      *.prefetch) peer+=(--prefetch 2) ;;
      *.pairs) peer+=(--blocks-per-group 2) ;;
      *.root) peer+=(--root-group) ;;
      *.keep) peer+=(--keep-weights) ;;
      *.symm) peer+=(--symmetric-memory) ;;
      *) fail "unknown peer '$1' (try --help)" ;;
    esac
  done
}

# The flags of the peer, and the JSON of arguments of zeropp.torch.compress().
plugin_arguments() {  # PLUGIN
  plugin=()
  [[ $1 != *-compile ]] || plugin+=(--compile)
  [[ $1 != *-hpz* ]] || plugin+=(--reshard "$node_size")
  local name=${1%-compile}
  arguments="\"transport\": \"$plugin_transport\""
  case ${name%-hpz} in
    both) ;;
    none) arguments='"transport": "torch", "weights": "none", "gradients": "none"' ;;
    lanes) arguments+=', "weights": "none", "gradients": "none"' ;;
    differences) arguments+=', "weight_differences": "int4:128"' ;;
    exact) arguments+=', "weights": "exact", "gradients": "int8:256"' ;;
    hybrid)
      plugin+=(--hybrid "$node_size")
      arguments+=', "gradients": ["none", "int4:128"]'
      ;;
    both-torch) arguments='"transport": "torch"' ;;
    *) fail "unknown plugin '$1' (try --help)" ;;
  esac
}

# Timed steps and those before, of one run: a step of tens of seconds is not taken 25 times.
choose_steps() {  # SHAPE LAYOUT NAME
  timed=${steps:-20} untimed=${warmup:-5}
  case $1.$2.$3 in
    *.node.* | *.all | *.qwz-qgz) ;;
    9.4b.* | 18.7b.*) timed=${steps:-6} untimed=${warmup:-2} ;;
  esac
}

train() {  # SHAPE LAYOUT FEATURE
  feature_flags "$3"
  choose_steps "$1" "$2" "$3"
  run_measured "$1" "$2" zeropp "$3" "$untimed" env "${environment[@]}" "${launch[@]}" "$build/bin/zpp_train" \
    "${model[@]}" --no-tied-head --bf16 --lr 0.0001 --train-iters $((untimed + timed)) --no-hash-parameters \
    --backend "$backend" --transport "$transport" "${declared[@]}" "${feature[@]}" "${extra[@]}" \
    --output "$scratch" --json @JSON@
}

# Ports differ, so that no run waits for the last one's to be free.
port=29500
fsdp2() {  # SHAPE LAYOUT KIND NAME FLAG...
  local shape=$1 layout=$2 kind=$3 name=$4
  shift 4
  choose_steps "$shape" "$layout" "$name"
  port=$((port + 1))
  run_measured "$shape" "$layout" "$kind" "$name" "$untimed" env MASTER_PORT=$port "${environment[@]}" "${launch[@]}" "$python" \
    validation/zpp-validate peer-fsdp2 "${model[@]}" --lr 0.0001 --warmup "$untimed" --steps "$timed" \
    --device "$peer_device" "${declared[@]}" "$@" --json @JSON@
}

train_peers() {  # SHAPE LAYOUT
  local name
  local -a list
  split "${peers/#auto/$shape_peers}"
  for name in "${list[@]}"; do
    [[ $name.$2 != hybrid*.node ]] || continue
    peer_flags "$name"
    fsdp2 "$1" "$2" peer "$name" "${peer[@]}"
  done
}

train_plugins() {  # SHAPE LAYOUT
  local name
  for name in "${plugin_list[@]}"; do
    [[ $name != *-hpz* || ($node_size -gt 1 && $node_size -lt $gpus) ]] || continue
    [[ ! $name.$2 =~ ^(differences|exact|hybrid).*\.node$ ]] || continue
    plugin_arguments "$name"
    PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} fsdp2 "$1" "$2" plugin "plugin-$name" "${plugin[@]}" \
      --prepare "zeropp.torch:compress {\"node_size\": $node_size, $arguments}"
  done
}

# Names are tried before anything runs.
split "$shapes"; shape_list=("${list[@]}")
split "$layouts"; layout_list=("${list[@]}")
split "$features"; feature_list=("${list[@]}")
split "${peers/#auto/}"; peer_list=("${list[@]}")
split "$plugins"; plugin_list=("${list[@]}")
for name in "${shape_list[@]}"; do shape_flags "$name"; done
for name in "${layout_list[@]}"; do layout_flags "$name"; done
for name in "${feature_list[@]}"; do feature_flags "$name"; done
for name in "${peer_list[@]}"; do
  peer_flags "$name"
  [[ $name != plain* || $gpus -eq 1 ]] || fail "peer '$name' has one GPU, and there are $gpus: --gpus 1"
done
for name in "${plugin_list[@]}"; do plugin_arguments "$name"; done

if [ $dry_run -eq 0 ]; then
  need_modules "$table_python" --table-python
  [ -z "$peers$plugins" ] || need_modules "$python" --python torch
  [ -z "$plugins" ] || PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} need_modules "$python" "--python, and zeropp's build with --build" zeropp.torch
fi

scratch=out/train_shapes
[ $dry_run -eq 1 ] || mkdir -p "$scratch"

open_study "$call" "$build/bin/zpp_info"
for shape in "${shape_list[@]}"; do
  shape_flags "$shape"
  for layout in "${layout_list[@]}"; do
    layout_flags "$layout"
    for ((round = 1; round <= repeat; round++)); do
      train_peers "$shape" "$layout"
      train_plugins "$shape" "$layout"
      for name in "${feature_list[@]}"; do
        [[ ! $name.$layout =~ ^(differences|exact|exact-int8)\.node$ ]] || continue
        train "$shape" "$layout" "$name"
      done
    done
    [ -z "$features$plugins" ] || train_peers "$shape" "$layout"
  done
done
[ $dry_run -eq 1 ] || "$table_python" validation/zpp-validate train-table "$study" --output "$study/table.md"
