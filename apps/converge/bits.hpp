// Bits that a parameter costs on the wire: the horizontal axis of a ladder of codecs. Where codecs
// change by step, they are the mean over the steps. With adaptive bits, they are the bits of the
// codec that is the budget. They are NaN where they depend on the sizes of units: an entry of the
// schedule names units, or the budget is a number of bytes.
#pragma once

#include "lib/comm/topology.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::converge {

/// Bits per value, scales included, in one gather of the weights. With weight differences, the bits
/// in the exchange of a step: the mean over all steps, where the first step and refreshes send
/// whole weights.
double weight_bits(const config::TrainConfig& config);

/// Bits per value, scales included, in one reduce-scatter. Two hops count as the mean over the
/// values that a rank sends.
double gradient_bits(const config::TrainConfig& config, const comm::Topology& topology);

}  // namespace zeropp::converge
