#include "queue.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "gloo_route.h"
#include "plain_kernels.h"

namespace spyreccl {
void Queue::push(Job job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  TORCH_CHECK_WITH(DistBackendError, !is_stopped_, "spyreccl: ", job.work->title(), ": the group was destroyed");
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void Queue::stop() {
  const Unlocked unlocked;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
  }
  if (worker_.joinable()) {
    worker_.join();
  }
}

Outcome Queue::failure() {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void Queue::fail(Outcome outcome) {
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = failure_ ? failure_ : outcome;
}

void Queue::run() {
  const PlainKernels plain;
  while (true) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return is_stopped_ || !jobs_.empty(); });
    if (jobs_.empty()) {
      break;
    }
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    const auto failure = failure_;
    lock.unlock();
    if (failure) {
      job.work->end(failure);
    } else {
      carry_out(job);
    }
  }
  pending_.clear();
}

void Queue::carry_out(Job& job) {
  std::vector<std::function<int()>> started;
  try {
    const c10::OptionalStreamGuard guard(stream_of(job));
    for (auto& point : job.ready) {
      point.synchronize();
    }
    for (const auto& call : job.calls) {
      started.push_back(start_by_gloo(*gloo_, call, job.timeout));
      if (!job.is_point_to_point) {
        started.back()();
        started.pop_back();
      }
    }
  } catch (const std::exception& error) {
    job.work->end(named(job, error));
    return;
  }
  if (!job.is_point_to_point) {
    end(job, started);
    return;
  }
  const auto is_over = [](std::future<void>& wait) { return wait.wait_for(Milliseconds(0)) == std::future_status::ready; };
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(), is_over), pending_.end());
  pending_.push_back(std::async(std::launch::async, [this, job = std::make_shared<Job>(std::move(job)), started] {
    const PlainKernels plain;
    end(*job, started);
  }));
}

void Queue::end(const Job& job, const std::vector<std::function<int()>>& started) {
  try {
    const auto stream = stream_of(job);
    const c10::OptionalStreamGuard guard(stream);
    for (const auto& land : started) {
      job.work->set_source(land());
    }
    for (const auto& [from, to] : job.landings) {
      to.copy_(from);
    }
    if (stream) {
      stream->synchronize();
    }
  } catch (const std::exception& error) {
    job.work->end(named(job, error));
    return;
  }
  job.work->end(nullptr);
}

std::optional<c10::Stream> Queue::stream_of(const Job& job) {
  if (!job.device) {
    return std::nullopt;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& stream : streams_) {
    if (stream.device() == *job.device) {
      return stream;
    }
  }
  const c10::impl::VirtualGuardImpl guard(kSpyre);
  return streams_.emplace_back(guard.getNewStream(*job.device, -1));
}

Outcome Queue::named(const Job& job, const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  const std::string what = known != nullptr ? known->what_without_backtrace() : error.what();
  auto outcome = std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, __LINE__}, "spyreccl: " + job.work->title() + ": " + what));
  fail(outcome);
  return outcome;
}

} // namespace spyreccl
