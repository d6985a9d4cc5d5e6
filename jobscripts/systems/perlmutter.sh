#!/usr/bin/env bash
# NERSC Perlmutter, GPU nodes: 4 A100, 64 cores of 2 threads, Slingshot with 4 NICs; Cray MPICH, whose ranks srun starts
# without PMIx. To be sourced; see generic-gpu.sh. The account is given as an option of sbatch. Not run there: compare
# modules and options with the site's pages.
# shellcheck disable=SC2034  # what is set here, the scripts that source it read

# shellcheck source=jobscripts/needed.sh
source jobscripts/needed.sh
load_modules PrgEnv-gnu cudatoolkit cray-hdf5 nccl
# shellcheck source=jobscripts/systems/generic-gpu.sh
source jobscripts/systems/generic-gpu.sh
sbatch_options+=(--constraint=gpu --qos=regular --cpus-per-task=32)
launcher=(srun --kill-on-bad-exit=0 --wait=30 --nodes=@NODES@ --ntasks=@RANKS@ --ntasks-per-node=@RANKS_PER_NODE@
  --cpus-per-task="${SLURM_CPUS_PER_TASK:-32}" --cpu-bind=cores --gpu-bind=none)
export NCCL_SOCKET_IFNAME=hsn MPICH_GPU_SUPPORT_ENABLED=0  # GPU memory goes over NCCL only
