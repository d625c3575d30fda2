//! A program as text: declarations, then one instruction per line, indented by loops and skips.

use std::fmt;

use super::Draft;
use crate::isa::Instruction;

pub(super) fn write(draft: &Draft, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "dims {}, scalars {}", draft.dims, draft.scalars)?;
    for (at, operand) in draft.operands.iter().enumerate() {
        let access = operand.access.name();
        let format = operand.format.name();
        writeln!(f, "o{at}: {access} {format} {}", operand.span)?;
    }
    for (at, register) in draft.registers.iter().enumerate() {
        writeln!(f, "r{at}: {} {}", register.lane, register.span)?;
    }
    write_code(&draft.instructions, f)
}

fn write_code(instructions: &[Instruction], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut loops = 0_usize;
    let mut skips: Vec<usize> = Vec::new();
    for (at, instruction) in instructions.iter().enumerate() {
        while skips.pop_if(|end| *end <= at).is_some() {}
        if *instruction == Instruction::End {
            loops = loops.saturating_sub(1);
        }
        writeln!(f, "{:indent$}{instruction}", "", indent = 2 * (loops + skips.len()))?;
        match *instruction {
            Instruction::Begin { .. } => loops += 1,
            Instruction::SkipUnless { instructions, .. }
            | Instruction::SkipUnlessAny { instructions, .. } => {
                skips.push(at + 1 + instructions as usize);
            }
            _ => {}
        }
    }
    Ok(())
}
