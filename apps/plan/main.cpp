// zpp_plan: what a training run on a cluster will send and need, before there is the cluster.
#include "apps/plan/commands.hpp"

int main(int argc, char** argv) { return zeropp::plan::run(argc, argv); }
