#!/usr/bin/env bash
# The two nodes that jobscripts/local/two_node_slurm.sh starts on one host. To be sourced; see generic.sh.
# shellcheck disable=SC2034  # what is set here, the scripts that source it read

# shellcheck source=jobscripts/systems/generic.sh
source jobscripts/systems/generic.sh

# Open MPI takes the two for different machines, and shares memory inside one by the name of the host, which is the
# same: only TCP works everywhere. Ranks outnumber the cores.
export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
