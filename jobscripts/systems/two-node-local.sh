#!/usr/bin/env bash
# The two nodes that jobscripts/local/two_node_slurm.sh starts on one host. To be sourced; see generic.sh.
# shellcheck disable=SC2034  # what is set here, the scripts that source it read

# shellcheck source=jobscripts/systems/generic.sh
source jobscripts/systems/generic.sh

# Open MPI takes the two for different machines, and shares memory inside one by the name of the host, which is the
# same: only TCP works everywhere. Over UCX, for Open MPI 4.1's own transport (btl tcp) crashes in MPI_Init, once in
# about 50 starts here, when a rank that is late gets a message before it has set up what takes it. Ranks outnumber the
# cores.
export OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any UCX_TLS=tcp,self UCX_NET_DEVICES=lo
export OMPI_MCA_mpi_yield_when_idle=1
