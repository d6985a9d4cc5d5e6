// The place where virtual ranks meet: what a rank posts of an operation, the others of its group
// find. No locks: one rank runs at a time (turns.hpp).
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/comm/turns.hpp"

namespace zeropp::comm {

/// An operation of a group: what each of its ranks posted; empty where one has not yet.
using Posts = std::vector<std::any>;

class VirtualMail {
 public:
  explicit VirtualMail(Turns& turns) : turns_(turns) {}

  [[nodiscard]] Turns& turns() { return turns_; }
  /// Posts `own` as rank `rank` of the `size` ranks of `group`, in its operation `number`. Returns
  /// the operation's posts.
  std::shared_ptr<Posts> post(const std::string& group, std::uint64_t number, std::size_t size,
                              std::size_t rank, std::any own);

 private:
  struct Operation {
    std::shared_ptr<Posts> posts;
    std::size_t missing = 0;
  };
  Turns& turns_;
  /// Operations that some ranks have not posted to yet.
  std::map<std::pair<std::string, std::uint64_t>, Operation> open_;
};

/// One rank of a group of virtual ranks: its address in the mail.
class VirtualMember {
 public:
  /// `group`: unique in the mail. `members`: threads of the group's ranks, in rank order.
  VirtualMember(VirtualMail& mail, std::string group, std::vector<std::size_t> members,
                std::size_t rank)
      : mail_(&mail), group_(std::move(group)), members_(std::move(members)), rank_(rank) {}

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::size_t size() const { return members_.size(); }
  [[nodiscard]] VirtualMail& mail() const { return *mail_; }
  [[nodiscard]] const std::string& group() const { return group_; }
  [[nodiscard]] const std::vector<std::size_t>& members() const { return members_; }

  /// Posts to the group's next operation. All ranks post to operations in the same order.
  std::shared_ptr<Posts> post(std::any own) {
    mail_->turns().require_others();
    return mail_->post(group_, ++posted_, size(), rank_, std::move(own));
  }
  /// Lets other ranks run until `condition` holds.
  void wait(const Turns::Condition& condition) const {
    mail_->turns().wait(members_[rank_], condition);
  }

 private:
  VirtualMail* mail_;
  std::string group_;
  std::vector<std::size_t> members_;
  std::size_t rank_;
  std::uint64_t posted_ = 0;
};

}  // namespace zeropp::comm
