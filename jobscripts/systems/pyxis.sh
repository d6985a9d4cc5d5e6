#!/usr/bin/env bash
# A GPU cluster whose Slurm starts containers through NVIDIA's pyxis: ZEROPP_CONTAINER names the image, in which the build
# was made. To be sourced; see generic-gpu.sh. Written from pyxis' documentation, and not run there.
# shellcheck disable=SC2034  # what is set here, the scripts that source it read

image=${ZEROPP_CONTAINER:?pyxis.sh: error: name the image in ZEROPP_CONTAINER}
# shellcheck source=jobscripts/systems/generic-gpu.sh
source jobscripts/systems/generic-gpu.sh
container=()
launcher+=("--container-image=$image" "--container-mounts=$PWD:$PWD" "--container-workdir=$PWD")
