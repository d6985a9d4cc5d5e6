// zpp_train as a program: its options, and what runs.
#pragma once

namespace zeropp::train_app {

/// All of main().
int run(int argc, char** argv);

}  // namespace zeropp::train_app
