// Bits that a parameter costs on the wire: what a ladder of codecs is drawn over. Of codecs that
// change by step the mean over the steps, of adaptive bits those of the codec that is their budget;
// NaN where they depend on how large units are: an entry of the schedule names some, or the budget
// is a number of bytes.
#pragma once

#include "lib/comm/topology.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::converge {

/// Bits a value with scales in one gather of the weights; with weight differences in the exchange
/// of a step, the mean over the steps, of which the first one and refreshes send whole weights.
double weight_bits(const config::TrainConfig& config);

/// Bits a value with scales in one reduce-scatter; of two hops the mean over the values that a rank
/// sends.
double gradient_bits(const config::TrainConfig& config, const comm::Topology& topology);

}  // namespace zeropp::converge
