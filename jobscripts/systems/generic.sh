#!/usr/bin/env bash
# A Slurm cluster of which nothing special is known: an MPI that starts over PMIx, no modules, no container. To be
# sourced, on the login node by submit and in the job by job.sh; a file for another system sources it and changes what
# differs:
#   build           the build folder
#   python          a Python with NumPy, h5py, SciPy and matplotlib
#   launcher        the words that start a run's ranks; @NODES@, @RANKS@ and @RANKS_PER_NODE@ become the run's numbers
#   container       words between the launcher and the program
#   sbatch_options  what submit gives to sbatch before the user's options: partition, GPUs; @RANKS_PER_NODE@ as above
# The environment may name build, python and an Apptainer image: ZEROPP_BUILD, ZEROPP_PYTHON, ZEROPP_CONTAINER.
# shellcheck disable=SC2034  # what is set here, the scripts that source it read

# shellcheck source=jobscripts/needed.sh
source jobscripts/needed.sh

build=${ZEROPP_BUILD:-build}
python=${ZEROPP_PYTHON:-$(python_of_build "$build")}

# When one rank ends with an error, srun does not kill the others at once: they are ending with the same exit code, and
# would lose it. Ranks that still run 30 s later wait for a dead rank, and srun kills them.
launcher=(srun --mpi=pmix --kill-on-bad-exit=0 --wait=30 --nodes=@NODES@ --ntasks=@RANKS@
  --ntasks-per-node=@RANKS_PER_NODE@)
# srun does not take over the job's --cpus-per-task.
[ -z "${SLURM_CPUS_PER_TASK:-}" ] || launcher+=(--cpus-per-task="$SLURM_CPUS_PER_TASK")

container=()
[ -z "${ZEROPP_CONTAINER:-}" ] || container=(apptainer exec --nv --bind "$PWD" "$ZEROPP_CONTAINER")

sbatch_options=()

# One thread per rank unless the environment says otherwise: ranks share the cores.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
