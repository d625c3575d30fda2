// Messages between ranks on different machines, as the engine asks for them: by the Gloo that a group has inside.
#pragma once

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <mutex>

#include "call.h"

namespace spyreccl {

class GlooWire {
 public:
  explicit GlooWire(Ref<c10d::Backend> gloo) : gloo_(std::move(gloo)) {}

  // Sends bytes to a rank, or receives them; throws if that fails.
  void transfer(bool is_send, int peer, int tag, uint8_t* bytes, size_t count, Milliseconds timeout) {
    Tensors part{at::from_blob(bytes, {static_cast<int64_t>(count)}, at::kByte)};
    const auto work = begin(is_send, peer, tag, part);
    const auto forget = c10::make_scope_exit([&] {
      std::lock_guard<std::mutex> lock(mutex_);
      pending_.erase(std::find(pending_.begin(), pending_.end(), work));
    });
    TORCH_CHECK(work->wait(timeout), "it was aborted");
  }

  // Ends messages that wait, and those to come.
  void abort() {
    std::lock_guard<std::mutex> lock(mutex_);
    is_aborted_ = true;
    for (const auto& work : pending_) {
      work->abort();
    }
  }

 private:
  Ref<c10d::Work> begin(bool is_send, int peer, int tag, Tensors& part) {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!is_aborted_, "it was aborted");
    pending_.push_back(is_send ? gloo_->send(part, peer, tag) : gloo_->recv(part, peer, tag));
    return pending_.back();
  }

  const Ref<c10d::Backend> gloo_;
  std::mutex mutex_;
  std::vector<Ref<c10d::Work>> pending_;
  bool is_aborted_ = false;
};

} // namespace spyreccl
