use std::sync::Arc;

use spyre_flex::Env;

use crate::world::World;

/// Virtual time and no threads: a caller that waits lets the world take a step.
#[derive(Debug)]
pub(crate) struct SimulatedEnv {
    world: Arc<World>,
}

impl SimulatedEnv {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world) }
    }
}

impl Env for SimulatedEnv {
    fn now(&self) -> u64 {
        self.world.now()
    }

    fn spawn(&self, _: String, _: Box<dyn FnOnce() + Send>) -> bool {
        false
    }

    fn park(&self) {
        self.world.state().oracle.set_waiting_for_room(true);
        let is_stepped = self.world.step();
        self.world.state().oracle.set_waiting_for_room(false);
        if !is_stepped {
            self.world.deadlock();
        }
    }
}
