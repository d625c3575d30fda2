#include "collectives.h"

#include "spyre.h"

extern "C" {
// python/src/collectives.rs
extern const char* spyre_message();
SpyreStatus spyre_group_connect(const spyre::GroupSettings* settings, spyre::Group** group);
SpyreStatus spyre_group_is_in_a_row(const SpyreView* view, bool* is);
SpyreStatus spyre_group_start(const spyre::Group* group, const spyre::GroupCall* calls, size_t count, int32_t device,
                              int64_t stream, spyre::CallEnded ended, void* context);
void spyre_group_abort(const spyre::Group* group, const char* reason);
void spyre_group_set_timeout(const spyre::Group* group, int64_t milliseconds);
uint64_t spyre_group_sequence(const spyre::Group* group);
void spyre_group_history(const spyre::Group* group, void* sink, spyre::TakeText take);
void spyre_group_close(spyre::Group* group);
}

namespace {

constexpr spyre::GroupTable kTable{
    &spyre_message,        &spyre::view_of,          &spyre_group_connect,  &spyre_group_is_in_a_row, &spyre_group_start,
    &spyre_group_abort,    &spyre_group_set_timeout, &spyre_group_sequence, &spyre_group_history,     &spyre_group_close,
};

} // namespace

extern "C" const spyre::GroupTable* spyre_group_table() noexcept {
  return &kTable;
}
