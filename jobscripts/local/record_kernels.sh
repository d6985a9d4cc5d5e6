#!/bin/sh
# Becomes COMMAND and, on the ranks that are asked for, has the CUDA driver load the library kernel_times
# (validation/kernel_times/) into it. For use behind mpirun, which starts one on every rank.
# usage: record_kernels.sh LIBRARY PREFIX RANKS COMMAND...
#   PREFIX  of the files; the rank is appended, and the library appends the process
#   RANKS   one rank, or all
set -eu
[ $# -ge 4 ] || { echo "record_kernels: error: usage: record_kernels.sh LIBRARY PREFIX RANKS COMMAND..." >&2; exit 2; }
library=$1 prefix=$2 ranks=$3
shift 3
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}
case $ranks in
  all | "$rank")
    ZEROPP_KERNEL_TIMES=$prefix.$(printf '%04d' "$rank")
    CUDA_INJECTION64_PATH=$library
    export ZEROPP_KERNEL_TIMES CUDA_INJECTION64_PATH
    ;;
esac
exec "$@"
