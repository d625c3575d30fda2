//! Files of tensors, read and written.

pub(crate) mod npy;
pub(crate) mod plain_file;
pub(crate) mod safetensors_file;
pub(crate) mod tensor_file;
