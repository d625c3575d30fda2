//! Registers that are not needed at the same time share a buffer.
//!
//! A draft fills each register for one purpose, so that its life is one stretch of the code: from
//! the first write to the last read, or, where that is in a loop that the first write is not in, to
//! the end of that loop. Lives that do not meet, of registers of one type, become one register. An
//! instruction that works element by element may write over what it reads last. What a later loop makes
//! again is left alone until its own has passed.

use spyre_artifact::{Draft, Instruction, Register, RegisterType};

use super::reuse::reused_registers;

/// Lets registers share buffers.
pub(super) fn share(draft: &mut Draft) {
    let loops = Loops::of(&draft.instructions);
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut renamed = vec![Register(0); draft.registers.len()];
    for life in lives(draft, &loops) {
        let of = draft.registers[usize::from(life.register.0)];
        let in_place = draft.instructions[life.first].may_work_in_place();
        let fits = |buffer: &Buffer| buffer.takes(of, &life, in_place, &loops);
        let at = buffers.iter().position(fits).unwrap_or(buffers.len());
        if at == buffers.len() {
            buffers.push(Buffer { of, until: 0, homes: Vec::new() });
        }
        buffers[at].until = life.last;
        if !buffers[at].homes.contains(&life.home) {
            buffers[at].homes.push(life.home);
        }
        renamed[usize::from(life.register.0)] = Register(at as u16);
    }
    for instruction in &mut draft.instructions {
        instruction.touch_registers(|_, register| *register = renamed[usize::from(register.0)]);
    }
    draft.registers = buffers.into_iter().map(|buffer| buffer.of).collect();
}

/// A register of the program that comes out.
struct Buffer {
    of: RegisterType,
    /// The last instruction that needs what it holds.
    until: usize,
    /// The loops in which lives began that it was used for.
    homes: Vec<usize>,
}

impl Buffer {
    fn takes(&self, of: RegisterType, life: &Life, in_place: bool, loops: &Loops) -> bool {
        let is_free = self.until < life.first || in_place && self.until == life.first;
        // What was written before a parallel loop began must not be written in it.
        let is_private = || match loops.innermost_parallel(life.home) {
            Some(parallel) => self.homes.iter().all(|&home| !loops.is_outside(home, parallel)),
            None => true,
        };
        self.of == of && is_free && is_private()
    }
}

/// Live range of a register.
struct Life {
    register: Register,
    first: usize,
    last: usize,
    /// The innermost loop around the first write.
    home: usize,
}

/// The lives of all registers that are used, in the order in which they begin.
fn lives(draft: &Draft, loops: &Loops) -> Vec<Life> {
    let wanted = reused_registers(draft, &loops.homes());
    let mut places = vec![None; draft.registers.len()];
    let mut lives: Vec<Life> = Vec::new();
    for (at, &(mut instruction)) in draft.instructions.iter().enumerate() {
        instruction.touch_registers(|_, &mut register| {
            let place = &mut places[usize::from(register.0)];
            let nth = *place.get_or_insert_with(|| {
                let home = loops.around[at];
                lives.push(Life { register, first: at, last: at, home });
                lives.len() - 1
            });
            let life = &mut lives[nth];
            life.last = life.last.max(loops.end_of_use(life.home, at));
        });
    }
    for life in lives.iter_mut().filter(|life| wanted[life.register.index()]) {
        life.last = life.last.max(loops.loops[life.home].end);
    }
    lives
}

/// The loops of a program. Number 0 is the program itself.
struct Loops {
    loops: Vec<Loop>,
    /// The innermost loop around each instruction.
    around: Vec<usize>,
}

struct Loop {
    parent: usize,
    end: usize,
    is_parallel: bool,
}

impl Loops {
    fn of(instructions: &[Instruction]) -> Self {
        let mut loops = vec![Loop { parent: 0, end: usize::MAX, is_parallel: false }];
        let mut around = Vec::with_capacity(instructions.len());
        let mut open = 0;
        for (at, instruction) in instructions.iter().enumerate() {
            if let Instruction::Begin { is_parallel, .. } = *instruction {
                loops.push(Loop { parent: open, end: usize::MAX, is_parallel });
                open = loops.len() - 1;
            }
            around.push(open);
            if *instruction == Instruction::End {
                loops[open].end = at;
                open = loops[open].parent;
            }
        }
        Self { loops, around }
    }

    /// Returns the end of a use of a register of loop `home`: loops inside the home find it again each
    /// time around. Past its home, it is needed for good.
    fn end_of_use(&self, home: usize, at: usize) -> usize {
        let mut around = self.around[at];
        let mut end = at;
        while around != home {
            if around == 0 {
                return usize::MAX;
            }
            end = self.loops[around].end;
            around = self.loops[around].parent;
        }
        end
    }

    /// The innermost loop around each instruction, and the one around that.
    fn homes(&self) -> Vec<[usize; 2]> {
        self.around.iter().map(|&home| [home, self.loops[home].parent]).collect()
    }

    fn innermost_parallel(&self, from: usize) -> Option<usize> {
        self.upwards(from).find(|&at| self.loops[at].is_parallel)
    }

    /// Returns true if one loop is around another one, and not the same.
    fn is_outside(&self, outer: usize, inner: usize) -> bool {
        self.upwards(inner).skip(1).any(|at| at == outer)
    }

    /// A loop and all around it, innermost first.
    fn upwards(&self, from: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(from), |&at| (at != 0).then(|| self.loops[at].parent))
    }
}
