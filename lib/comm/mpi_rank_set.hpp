// Ranks that are processes of an MPI job. Owns its MPI communicators.
#pragma once

#include <memory>
#include <vector>

#include "lib/comm/mpi_check.hpp"
#include "lib/comm/mpi_control.hpp"
#include "lib/comm/rank_set.hpp"

namespace zeropp::comm {

class MpiRankSet final : public RankSet {
 public:
  /// The ranks of `launched`. Collective over them.
  explicit MpiRankSet(CommHandle launched);
  /// All ranks of the job.
  static std::unique_ptr<MpiRankSet> of_job();

  [[nodiscard]] MPI_Comm launched() const { return launched_.get(); }
  [[nodiscard]] int launched_rank() const override { return launched_rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] const Host& host() const override { return host_; }
  [[nodiscard]] Control& control() override { return control_; }
  [[nodiscard]] std::vector<int> all_gather(int value) override;
  void renumber(int key) override;
  [[nodiscard]] std::unique_ptr<RankSet> split(int color) override;
  [[nodiscard]] std::unique_ptr<Communicator> make_communicator(const char* name, int color,
                                                                std::vector<LinkClass> links,
                                                                const GroupOptions& options,
                                                                std::size_t lanes) override;

 private:
  CommHandle launched_;  ///< the ranks as they came, in that order
  int launched_rank_ = 0;
  int size_ = 1;
  Host host_;
  MpiControl control_;  ///< owns the renumbered communicator
};

}  // namespace zeropp::comm
