//! Narrow values before wide work: a weight that is loaded between two products of a row is loaded before
//! the first one, so that a card can do both in one pass. What is wide stays where it is needed, for the
//! cache's sake.

use spyre_artifact::{Draft, Instruction, Register, Touch};

/// Moves loads, constants and scalars up past wide work that stands before them.
pub(super) fn hoist_narrow_loads(draft: &mut Draft) {
    for block in Instruction::blocks(&draft.instructions) {
        for at in block.clone() {
            let Some(narrow) = brought(&draft.instructions[at]) else { continue };
            let before = (block.start..at).rev();
            let passed = before.take_while(|&before| is_wide_work(draft, before, narrow)).count();
            draft.instructions[at - passed..=at].rotate_right(1);
        }
    }
}

/// The register of what comes from outside.
fn brought(instruction: &Instruction) -> Option<Register> {
    match *instruction {
        Instruction::Load { target, .. }
        | Instruction::Constant { target, .. }
        | Instruction::Scalar { target, .. } => Some(target),
        _ => None,
    }
}

/// Returns true if an instruction works element by element, on more than a register spans and without it.
fn is_wide_work(draft: &Draft, at: usize, narrow: Register) -> bool {
    let span = |register: Register| draft.registers[register.index()].span;
    let mut instruction = draft.instructions[at];
    let mut is_wide = instruction.may_work_in_place();
    instruction.touch_registers(|touch, &mut register| {
        let is_wider = span(narrow) != span(register) && span(narrow).is_inside(span(register));
        is_wide &= register != narrow && (touch != Touch::Write || is_wider);
    });
    is_wide
}

#[cfg(test)]
mod tests {
    use spyre_artifact::{Access, Lane, ProgramBuilder, UnaryOp};
    use spyre_numerics::DataFormat::IeeeFp32;

    use super::*;

    /// The names of what the innermost loop does.
    fn body(draft: &Draft) -> Vec<String> {
        let text = draft.instructions.iter().map(ToString::to_string);
        text.skip(2).take_while(|line| line != "end").collect()
    }

    #[test]
    fn a_weight_is_loaded_before_the_row_is_scaled_but_not_where_it_may_be_skipped() {
        let mut code = ProgramBuilder::with_registers_to_share();
        let i = code.dim();
        let j = code.dim();
        let word = code.scalar_word();
        let x = code.operand(IeeeFp32, Access::Read, [i, j]);
        let [w, v] = [(); 2].map(|()| code.operand(IeeeFp32, Access::Read, [j]));
        let y = code.operand(IeeeFp32, Access::Write, [i, j]);
        code.each(i, 16, |code| {
            code.each(j, 256, |code| {
                let tile = code.load(x);
                let above = code.unary(UnaryOp::Abs, tile);
                let weight = code.load(w);
                let scaled = code.mul(above, weight);
                let other = code.load(x);
                let sum = code.add(scaled, other);
                code.when(word, |code| {
                    let target = code.register(Lane::F32, [i, j]);
                    code.copy(target, sum);
                });
                let weight = code.load(v);
                let scaled = code.mul(sum, weight);
                code.store(y, scaled);
            });
        });
        let mut draft = code.draft().expect("it follows the rules");
        let before = body(&draft);
        hoist_narrow_loads(&mut draft);

        let mut expected = before.clone();
        expected.swap(1, 2);
        assert!(before[1].contains("abs") && before[2].contains("load o1"), "{before:?}");
        assert_eq!(body(&draft), expected, "wide loads and what follows a skip stay");
    }
}
