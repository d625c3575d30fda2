#include "spyre.h"

// Views are made on this side, for a library that is loaded apart; python/src/collectives.rs hands it over.
extern "C" SpyreView spyre_view_of_tensor(const void* tensor) {
  return spyre::view_of(*static_cast<const at::Tensor*>(tensor));
}
