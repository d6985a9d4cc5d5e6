// zpp_train: trains a model with ZeRO and ZeRO++ over MPI and writes its trace.
#include "apps/train/program.hpp"

int main(int argc, char** argv) { return zeropp::train_app::run(argc, argv); }
