// The collectives of the table, one a file.
#pragma once

#include "apps/sweep/collective.hpp"

namespace zeropp::sweep {

const Collective& all_gather();
const Collective& reduce_scatter();
const Collective& all_reduce();
const Collective& all_to_all();
const Collective& broadcast();

}  // namespace zeropp::sweep
