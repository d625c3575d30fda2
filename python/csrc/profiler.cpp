// The cards' own activity in PyTorch's profiles: kernels and copies, on a row for each stream.
#define USE_KINETO
// The library of this name is not part of PyTorch.
#define FMT_HEADER_ONLY
#include "spyre.h"

#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <map>

namespace spyre {
namespace {

using libkineto::ActivityType;

class Session final : public libkineto::IActivityProfilerSession {
 public:
  ~Session() override {
    end();
  }

  void start() override {
    note(spyre_recording_start(&number_));
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    end();
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override {
    return errors_;
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, INT64_MAX);
  }

  void processTrace(libkineto::ActivityLogger& logger,
                    libkineto::getLinkedActivityCallback linked, int64_t start,
                    int64_t end) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(start, end, "spyre");
    buffer_->gpuOpCount = 0;
    SpyreBlock block;
    for (int64_t at = 0; recorded_ != nullptr && spyre_recording_block(recorded_.get(), at, &block); ++at) {
      if (block.start >= start && block.start <= end) {
        add(block, linked);
        logger.handleGenericActivity(*buffer_->activities.back());
      }
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return nullptr;
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> rows;
    for (const auto& [row, name] : streams_) {
      rows.push_back({row.second, row.second, row.first, name});
    }
    return rows;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  void pushCorrelationId(uint64_t id) override {
    spyre_push_correlation(id);
  }

  void popCorrelationId() override {
    spyre_pop_correlation();
  }

 private:
  void end() {
    if (number_ != 0) {
      SpyreRecorded* recorded = nullptr;
      note(spyre_recording_stop(number_, &recorded));
      recorded_.reset(recorded);
      number_ = 0;
    }
  }

  void add(const SpyreBlock& block, const libkineto::getLinkedActivityCallback& linked) {
    const auto type = block.kind == SpyreBlockKind::Kernel ? ActivityType::CONCURRENT_KERNEL
        : block.kind == SpyreBlockKind::Copy               ? ActivityType::GPU_MEMCPY
                                                 : ActivityType::GPU_MEMSET;
    buffer_->emplace_activity(buffer_->span, type, block.name);
    buffer_->gpuOpCount += 1;
    auto& activity = *buffer_->activities.back();
    activity.startTime = block.start;
    activity.endTime = block.end;
    activity.device = block.device;
    activity.resource = static_cast<int32_t>(block.stream);
    activity.threadId = static_cast<int32_t>(block.stream);
    activity.id = static_cast<int32_t>(block.correlation);
    activity.linked = block.correlation == 0 ? nullptr : linked(static_cast<int32_t>(block.correlation));
    if (activity.linked != nullptr) {
      activity.flow.id = static_cast<uint32_t>(block.correlation);
      activity.flow.type = libkineto::kLinkAsyncCpuGpu;
      activity.flow.start = 0;
    }
    activity.addMetadata("stream", block.stream);
    activity.addMetadata("sequence", block.sequence);
    activity.addMetadata("queued (ns)", block.queued == 0 ? 0 : block.start - block.queued);
    activity.addMetadata("modelled on a card (ns)", block.modelled);
    if (block.shapes[0] != '\0') {
      activity.addMetadataQuoted("shapes", block.shapes);
    }
    streams_.try_emplace({block.device, block.stream}, "stream " + std::to_string(block.stream));
  }

  void note(SpyreStatus status) {
    if (status != SpyreStatus::Ok) {
      errors_.emplace_back(spyre_message());
    }
  }

  struct Drop {
    void operator()(SpyreRecorded* recorded) const {
      spyre_recording_drop(recorded);
    }
  };

  uint64_t number_ = 0;
  std::unique_ptr<SpyreRecorded, Drop> recorded_;
  std::vector<std::string> errors_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::map<std::pair<int64_t, int64_t>, std::string> streams_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    return name_;
  }

  const std::set<ActivityType>& availableActivities() const override {
    return activities_;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types, const libkineto::Config&) override {
    const bool is_asked = types.count(ActivityType::CONCURRENT_KERNEL) != 0 ||
        types.count(ActivityType::PRIVATEUSE1_RUNTIME) != 0;
    return is_asked ? std::make_unique<Session>() : nullptr;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  std::string name_ = "spyre";
  std::set<ActivityType> activities_ = {
      ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET,
      ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::PRIVATEUSE1_DRIVER};
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

} // namespace
} // namespace spyre
