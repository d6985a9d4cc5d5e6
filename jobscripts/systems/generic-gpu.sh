#!/usr/bin/env bash
# A Slurm cluster with a GPU for every rank of a node: all GPUs of the node are visible to each rank, so that NCCL finds
# NVLink. To be sourced; see generic.sh. Some clusters with Slurm 24.05 or later need --tres-bind=gres/gpu:none
# instead of --gpu-bind=none.
# shellcheck disable=SC2034  # what is set here, the scripts that source it read

ZEROPP_BUILD=${ZEROPP_BUILD:-build-cuda}
# shellcheck source=jobscripts/systems/generic.sh
source jobscripts/systems/generic.sh
sbatch_options+=(--gpus-per-node=@RANKS_PER_NODE@)
launcher+=(--gpu-bind=none)
