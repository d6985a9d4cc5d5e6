// zpp_converge: trains a matrix of codecs and seeds, and writes what each showed into one trace.
#include "apps/converge/application.hpp"

int main(int argc, char** argv) { return zeropp::converge::run(argc, argv); }
