//! Values of loops that later loops beside them compute again: a layer norm's rows less their means,
//! first to be squared, then to be scaled. A card may keep a value from one loop to the next, if it is
//! still there when the first one has passed.

use spyre_artifact::{Draft, Instruction, Register, RegisterType, Touch};

/// Longer programs are left as they are: each instruction is compared with all before it.
const MOST_INSTRUCTIONS: usize = 1024;

/// Something that a loop makes.
struct Made {
    /// The instruction, but for its registers.
    bare: Instruction,
    sources: Vec<Register>,
    of: RegisterType,
    /// The loop, and the one around it.
    home: [usize; 2],
    register: Register,
}

/// Returns, for each register of a draft, true if a later loop computes it again for a purpose of its
/// own. `homes` has the innermost loop around each instruction, and the one around that.
pub(super) fn reused_registers(draft: &Draft, homes: &[[usize; 2]]) -> Vec<bool> {
    let mut wanted = vec![false; draft.registers.len()];
    if draft.instructions.len() > MOST_INSTRUCTIONS {
        return wanted;
    }
    // The first register that holds the same: a draft fills each for one purpose.
    let mut same: Vec<Register> = (0..draft.registers.len() as u16).map(Register).collect();
    let mut made: Vec<Made> = Vec::new();
    for (&instruction, &home) in draft.instructions.iter().zip(homes) {
        let mut bare = instruction;
        let mut sources = Vec::new();
        let mut target = None;
        let mut read = Vec::new();
        bare.touch_registers(|touch, register| {
            match touch {
                Touch::Write => target = Some(*register),
                Touch::Read | Touch::Update => {
                    read.push(*register);
                    sources.push(same[register.index()]);
                }
            }
            *register = Register(0);
        });
        if let (true, Some(register)) = (is_repeatable(instruction), target) {
            let of = draft.registers[register.index()];
            let is_same = |made: &&Made| {
                (made.bare, &made.sources, made.of) == (bare, &sources, of)
                    && made.home[0] != home[0]
                    && made.home[1] == home[1]
            };
            if let Some(before) = made.iter().find(is_same) {
                same[register.index()] = before.register;
                continue;
            }
            made.push(Made { bare, sources, of, home, register });
        }
        // Not itself made before: what it is made from is wanted.
        for register in read {
            let first = same[register.index()];
            wanted[first.index()] |= first != register;
        }
    }
    wanted
}

fn is_repeatable(instruction: Instruction) -> bool {
    match instruction {
        Instruction::Load { .. } => true,
        Instruction::Random { .. } => false,
        _ => instruction.may_work_in_place(),
    }
}
