use spyre_artifact::HandleWords;
use spyre_hal::DeviceHandle;

/// The words of a handle, as images and operand tables hold them.
pub fn handle_words(handle: DeviceHandle) -> HandleWords {
    HandleWords(handle.to_words())
}

/// The handle in these words; `None` if they name nothing.
pub fn handle_from_words(words: HandleWords) -> Option<DeviceHandle> {
    DeviceHandle::from_words(words.0)
}
