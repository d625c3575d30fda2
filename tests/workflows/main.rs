//! The workflows of the documents, one file each, on the real stack.

mod bed;
mod workflow_1_transfer;
mod workflow_2_loading;
mod workflow_3_launch;
mod workflow_4_tiles;
mod workflow_5_end_to_end;
mod workflow_6_streams;
