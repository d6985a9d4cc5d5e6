// zpp_plan: what a training run on a cluster will send and need, before there is the cluster.
#include "apps/plan/commands.hpp"

int main(int argc, char** argv) { return zeropp::plan_app::run(argc, argv); }
