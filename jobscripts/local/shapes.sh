#!/usr/bin/env bash
# Shapes, layouts and features of the studies on one host, as flags of zpp_train, and how the studies start it. To be
# sourced; the caller defines `fail`, which takes a message and ends, and sets
#   gpus     the number of ranks; empty: becomes that of the GPUs
#   backend  cuda or host
#   machine  its name; empty: becomes the number and name of its GPUs
# shellcheck disable=SC2034  # what is set here, the callers read

if [ -z "$gpus" ]; then
  gpus=$( (nvidia-smi -L 2>/dev/null || true) | wc -l)
  [ "$gpus" -gt 0 ] || fail "nvidia-smi lists no GPU: say how many ranks with --gpus"
fi
[[ $gpus =~ ^[1-9][0-9]*$ ]] || fail "--gpus '$gpus' is no number of ranks"
if [ -z "$machine" ]; then
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 2>/dev/null || echo host)
  machine=${gpus}x-${gpu//[^A-Za-z0-9]/-}
fi

# The flags of a shape, which zpp_train and the peers share, and the peers that are its baseline. For 6.86b eager and
# compiled FSDP2 both run, since the faster is not known before. A replica of 18.7b in each node needs 4 GPUs per node.
# On one GPU the baseline is PyTorch without FSDP, and FSDP2 of one rank, which rounds the weights once per step.
shape_flags() {  # SHAPE
  local layers hidden heads seq micro vocab=50257 more=()
  case $1 in
    124m) layers=12 hidden=768 heads=12 seq=1024 micro=16 shape_peers=fsdp2,fsdp2-compile ;; # GPT-2; its head is apart here: 163 million
    1.64b) layers=48 hidden=1600 heads=25 seq=1024 micro=8 shape_peers=fsdp2,hybrid ;;
    6.86b) layers=32 hidden=4096 heads=32 seq=2048 micro=4 shape_peers=fsdp2,fsdp2-compile,hybrid ;;
    9.4b) layers=20 hidden=6144 heads=48 seq=512 micro=1 shape_peers=fsdp2 ;; # half of 18.7b, for two GPUs
    18.7b)
      layers=40 hidden=6144 heads=48 seq=512 micro=1 shape_peers=fsdp2
      [ "$gpus" -lt 8 ] || shape_peers+=,hybrid
      ;;
    17m) layers=4 hidden=512 heads=8 seq=32 micro=1 vocab=4096 shape_peers=fsdp2,hybrid ;; # for two cores and a slow network
    llama-1.5b) # Llama 3.2 1B, whose head is apart here
      layers=16 hidden=2048 heads=32 seq=2048 micro=4 vocab=128256 shape_peers=fsdp2,fsdp2-compile
      more=(--model llama --num-key-value-heads 8 --ffn-hidden-size 8192 --rope-theta 500000)
      ;;
    llama-8b) # Llama 3 8B
      layers=32 hidden=4096 heads=32 seq=2048 micro=2 vocab=128256 shape_peers=fsdp2,fsdp2-compile
      more=(--model llama --num-key-value-heads 8 --ffn-hidden-size 14336 --rope-theta 500000)
      ;;
    tiny) layers=2 hidden=64 heads=4 seq=32 micro=2 vocab=257 shape_peers=fsdp2,hybrid ;;
    llama-tiny)
      layers=2 hidden=64 heads=4 seq=32 micro=2 vocab=257 shape_peers=fsdp2,hybrid
      more=(--model llama --num-key-value-heads 2 --head-dim 24 --ffn-hidden-size 80 --add-qkv-bias)
      ;;
    *) fail "unknown shape '$1' (try --help)" ;;
  esac
  [ "$gpus" -gt 1 ] || shape_peers=plain,plain-compile,fsdp2-compile
  model=(--num-layers "$layers" --hidden-size "$hidden" --num-attention-heads "$heads" --seq-length "$seq"
    --micro-batch-size "$micro" --vocab-size "$vocab" "${more[@]}")
}

# Ranks per node, and the environment in which nodes are emulated. The hosts of a network are nodes by themselves; the
# counters of their interfaces lie beside the summary of a run.
layout_flags() {  # LAYOUT
  node_size=$gpus declared=() environment=() launch=("${on_this_host[@]}")
  [ "$1" != node ] || return 0
  [ $((gpus % 2)) -eq 0 ] || fail "$gpus ranks are not two nodes: --layouts node"
  node_size=$((gpus / 2))
  case $1 in
    emulated) declared=(--node-size "$node_size") ;;
    emulated-4x4)
      declared=(--node-size "$node_size") environment=(NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4)
      ;;
    network-*)
      [ "${backend:?}" = host ] || fail "layout '$1' is of ranks on the host: --backend host"
      environment=(MASTER_ADDR=10.77.0.1 GLOO_SOCKET_IFNAME=eth0)
      launch=(jobscripts/local/netns.py --hosts 2 --ranks-per-host "$node_size" --rate "${1#network-}"
        --counters @JSON@.counters --)
      ;;
    *) fail "unknown layout '$1' (try --help)" ;;
  esac
}

feature_flags() {  # FEATURE
  local qwz=(--zero-quantized-weights) hpz=(--zero-hpz-partition-size "$node_size") qgz=(--zero-quantized-gradients)
  case $1 in
    none) feature=() ;;
    none-flat) feature=(--all-gather-algorithm native --reduce-scatter-algorithm native) ;;
    none-2hop) feature=(--reduce-scatter-algorithm 2-hop) ;;
    qwz) feature=("${qwz[@]}") ;;
    hpz) feature=("${hpz[@]}") ;;
    qgz) feature=("${qgz[@]}") ;;
    qwz-qgz) feature=("${qwz[@]}" "${qgz[@]}") ;;
    all) feature=("${qwz[@]}" "${hpz[@]}" "${qgz[@]}") ;;
    differences) feature=("${qwz[@]}" "${hpz[@]}" "${qgz[@]}" --weight-differences) ;;
    exact) feature=("${hpz[@]}" "${qgz[@]}" --weight-differences --exact-differences) ;;
    exact-int8) feature=("${hpz[@]}" "${qgz[@]}" --gradient-codec-intra int8:256 --gradient-codec-inter int8:256
      --weight-differences --exact-differences) ;;
    *) fail "unknown feature '$1' (try --help)" ;;
  esac
}

split() { IFS=, read -ra list <<<"$1"; }  # into the array `list`

# Root may start ranks too, in containers; a rank has one host thread.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
on_this_host=(mpirun -q -n "$gpus" --oversubscribe --bind-to none)
launch=("${on_this_host[@]}")
