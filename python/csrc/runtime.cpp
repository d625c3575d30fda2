// The device's allocator, guard and hooks, as PyTorch asks for them.
#include <c10/core/Device.h>
