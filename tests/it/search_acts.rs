//! All that can happen next in a world, and what must hold after it.

use callboard::protocol::session::{Call, Input};

use super::search_break::Broken;
use super::search_ghost::{NO_OUTCOME, Violation};
use super::search_world::{Doing, Kind, NOW, Plan, World, id};

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    // The ordinary course of things.
    Send(usize),
    Drain(usize),
    /// Everything in a session's cell, as one transaction.
    All(usize),
    Control(usize),
    Flush(usize),
    Load(usize),
    Learn(usize),
    EndTurn(usize),
    EndTurnWith(usize),
    Room(usize),
    Tick(usize),
    // What may happen once.
    Close(usize),
    Revoke,
    // Faults.
    Busy(usize),
    FailGroup(usize),
    Kill(usize),
    Panic(usize),
    PanicOverMail(usize),
    Unload(usize),
    Duplicate(usize),
    EarlyTick(usize),
    Steer(usize),
    EndTurnAgain(usize),
    FailTurn(usize),
    Interrupt(usize),
    GiveBack(usize),
    WriteLate,
}

impl World {
    /// What goes on by itself, sooner or later.
    pub(crate) fn ordinary(&self, plan: &Plan) -> Vec<Act> {
        let mut acts: Vec<Act> = (1..=self.queue.len()).map(Act::Flush).collect();
        for (pair, (from, _, count)) in plan.pairs.iter().enumerate() {
            if self.sent[pair] < *count && self.slots[*from].machine.is_some() {
                acts.push(Act::Send(pair));
                if self.slots[*from].doing == Doing::Turn {
                    acts.push(Act::EndTurnWith(pair));
                }
            }
        }
        for session in 0..self.slots.len() {
            self.ordinary_of(plan, session, &mut acts);
        }
        if acts.is_empty() {
            let sleeping = (0..self.slots.len()).filter(|s| self.slots[*s].wake.is_some());
            acts.extend(sleeping.map(Act::Tick));
        }
        acts
    }

    fn ordinary_of(&self, plan: &Plan, session: usize, acts: &mut Vec<Act>) {
        let slot = &self.slots[session];
        if slot.machine.is_none() {
            let unsent = plan.pairs.iter().zip(&self.sent);
            let sends = unsent.into_iter().any(|((from, _, n), sent)| *from == session && sent < n);
            let pending = slot.durable.has_pending() || !slot.cell.is_empty();
            let woken = pending || sends || slot.orphaned;
            let hasty = match plan.broken {
                Broken::LatePanicked => slot.orphaned,
                Broken::LateUnloaded => !slot.orphaned,
                _ => false,
            };
            let on_its_way = self.queue.iter().any(|frame| frame.session == session);
            if (woken || !slot.control.is_empty()) && (hasty || !on_its_way) {
                acts.push(Act::Load(session));
            }
            return;
        }
        if slot.ended {
            acts.push(Act::Learn(session));
        }
        if !slot.cell.is_empty() {
            acts.push(Act::Drain(session));
        }
        if slot.cell.len() + slot.control.len() > 1 {
            acts.push(Act::All(session));
        }
        if !slot.control.is_empty() {
            acts.push(Act::Control(session));
        }
        if slot.doing == Doing::Turn {
            acts.push(Act::EndTurn(session));
        }
        if !slot.turned_away.is_empty() {
            acts.push(Act::Room(session));
        }
    }

    /// What may happen besides.
    pub(crate) fn faults(&self, plan: &Plan) -> Vec<Act> {
        let mut acts = Vec::new();
        if let (Some(session), false) = (plan.closes, self.close_spent)
            && self.slots[session].machine.is_some()
        {
            acts.push(Act::Close(session));
        }
        if plan.revokes && !self.revoked {
            acts.push(Act::Revoke);
        }
        if !self.late.is_empty() {
            acts.push(Act::WriteLate);
        }
        if self.faults == 0 {
            return acts;
        }
        if plan.kinds.contains(&Kind::Group) {
            acts.extend((1..=self.queue.len()).map(Act::FailGroup));
        }
        if plan.kinds.contains(&Kind::Kill) {
            acts.extend((0..=self.queue.len()).map(Act::Kill));
        }
        let loaded = (0..self.slots.len()).filter(|s| self.slots[*s].machine.is_some());
        for session in loaded {
            self.faults_of(plan, session, &mut acts);
        }
        acts
    }

    fn faults_of(&self, plan: &Plan, session: usize, acts: &mut Vec<Act>) {
        let slot = &self.slots[session];
        let kind = |kind| plan.kinds.contains(&kind);
        let (mail, turn) = (!slot.cell.is_empty(), slot.doing == Doing::Turn);
        let open = turn || slot.doing == Doing::Asking;
        let possible = [
            (kind(Kind::Busy) && mail, Act::Busy(session)),
            (kind(Kind::Panic), Act::Panic(session)),
            (kind(Kind::Panic) && mail, Act::PanicOverMail(session)),
            (kind(Kind::Unload) && self.may_unload(plan, session), Act::Unload(session)),
            (kind(Kind::Duplicate) && mail, Act::Duplicate(session)),
            (kind(Kind::Early) && slot.wake.is_some(), Act::EarlyTick(session)),
            (kind(Kind::Turn) && turn, Act::Steer(session)),
            (kind(Kind::Turn) && turn, Act::EndTurnAgain(session)),
            (kind(Kind::Turn) && open, Act::FailTurn(session)),
            (kind(Kind::Turn) && open, Act::Interrupt(session)),
            (kind(Kind::Turn) && open, Act::GiveBack(session)),
        ];
        acts.extend(possible.into_iter().filter(|(possible, _)| *possible).map(|(_, act)| act));
    }

    fn may_unload(&self, plan: &Plan, session: usize) -> bool {
        let slot = &self.slots[session];
        let Some(machine) = &slot.machine else { return false };
        let hasty = plan.broken == Broken::LateUnloaded && !machine.state().has_pending();
        !slot.ended && slot.doing == Doing::Nothing && (machine.is_quiet() || hasty)
    }

    /// The world after something has happened.
    pub(crate) fn after(&self, plan: &Plan, act: Act) -> Result<World, Violation> {
        let mut world = self.clone();
        world.ticks = if matches!(act, Act::Tick(_)) { self.ticks + 1 } else { 0 };
        world.happen(plan, act)?;
        world.check(plan)?;
        Ok(world)
    }

    fn happen(&mut self, plan: &Plan, act: Act) -> Result<(), Violation> {
        match act {
            Act::Send(pair) => self.send(plan, pair),
            Act::Drain(session) => self.drain(plan, session, (0, 1)),
            Act::All(session) => self.drain(plan, session, (usize::MAX, usize::MAX)),
            Act::Control(session) => self.drain(plan, session, (1, 0)),
            Act::Flush(count) => self.write(count, true),
            Act::Load(session) => self.load(plan, session),
            Act::Learn(session) => {
                self.end_load(session, true);
                Ok(())
            }
            Act::EndTurn(session) => self.end_turn(plan, session, (false, None)),
            Act::EndTurnWith(pair) => self.end_turn(plan, plan.pairs[pair].0, (false, Some(pair))),
            Act::Room(session) => {
                for sender in std::mem::take(&mut self.slot(session).turned_away) {
                    self.slot(sender).control.push_back(Input::Room { target: id(session) });
                }
                Ok(())
            }
            Act::Tick(session) => self.tick(plan, session),
            Act::Close(session) => {
                self.close_spent = true;
                self.feed(plan, session, (vec![Input::Close { call: Call(1) }], NOW))
            }
            Act::Revoke => {
                self.revoked = true;
                Ok(())
            }
            Act::WriteLate => {
                let frame = self.late.remove(0);
                self.write_frame(&frame)
            }
            fault => {
                self.faults -= 1;
                self.go_wrong(plan, fault)
            }
        }
    }

    fn go_wrong(&mut self, plan: &Plan, fault: Act) -> Result<(), Violation> {
        match fault {
            Act::Busy(session) => self.turn_away(session),
            Act::FailGroup(count) => self.fail_group(plan, count),
            Act::Kill(count) => return self.kill(plan, count),
            Act::PanicOverMail(session) => {
                if let Some(Input::Mail { from, .. }) = self.slot(session).cell.pop_front() {
                    let sender = from.as_u128() as usize - 1;
                    *self.slot(session).unanswered.entry(sender).or_default() += 1;
                }
                self.end_load(session, true);
            }
            Act::Panic(session) => self.end_load(session, true),
            Act::Unload(session) => self.end_load(session, false),
            Act::Duplicate(session) => {
                let slot = self.slot(session);
                slot.cell.extend(slot.cell.front().cloned());
            }
            Act::EarlyTick(session) => return self.tick(plan, session),
            Act::Steer(session) => {
                self.slot(session).doing = Doing::Asking;
                let turn = self.slots[session].turn;
                return self.feed(plan, session, (vec![Input::Steer { turn }], NOW));
            }
            Act::EndTurnAgain(session) => return self.end_turn(plan, session, (true, None)),
            Act::FailTurn(session) => return self.fail_turn(plan, session),
            Act::Interrupt(session) => {
                self.slot(session).doing = Doing::Failing;
                return self.feed(plan, session, (vec![Input::Interrupt], NOW));
            }
            Act::GiveBack(session) => {
                self.slot(session).doing = Doing::Failing;
                return self.feed(plan, session, (vec![Input::GiveBack], NOW));
            }
            ordinary => unreachable!("{ordinary:?}"),
        }
        Ok(())
    }

    fn drain(
        &mut self,
        plan: &Plan,
        session: usize,
        (n_control, n_mail): (usize, usize),
    ) -> Result<(), Violation> {
        let slot = self.slot(session);
        let n_control = n_control.min(slot.control.len());
        let n_mail = n_mail.min(slot.cell.len());
        let mut inputs: Vec<Input> = slot.control.drain(..n_control).collect();
        inputs.extend(slot.cell.drain(..n_mail));
        // A step gives one answer to each sender it heard from.
        let mut senders: Vec<_> = inputs.iter().filter_map(sender_of).collect();
        senders.sort_unstable();
        senders.dedup();
        for sender in senders {
            *slot.unanswered.entry(sender).or_default() += 1;
        }
        self.feed(plan, session, (inputs, NOW))
    }

    fn turn_away(&mut self, session: usize) {
        let Some(mail) = self.slot(session).cell.pop_front() else { return };
        if let (Some(sender), Input::Mail { first, .. }) = (sender_of(&mail), mail) {
            let slot = self.slot(session);
            if !slot.turned_away.contains(&sender) {
                slot.turned_away.push(sender);
            }
            self.slot(sender).control.push_back(Input::Busy { target: id(session), first });
        }
    }

    fn tick(&mut self, plan: &Plan, session: usize) -> Result<(), Violation> {
        let at = self.slots[session].wake.unwrap_or(NOW);
        self.feed(plan, session, (vec![Input::Tick], at))?;
        if self.slots[session].wake.is_some_and(|next| next <= at) {
            return Err("a tick asks for another at once");
        }
        Ok(())
    }

    /// What holds at every moment.
    fn check(&self, plan: &Plan) -> Result<(), Violation> {
        if self.ticks > 8 {
            return Err("time goes on and nothing else does");
        }
        for (session, slot) in self.slots.iter().enumerate() {
            if plan.blind {
                continue;
            }
            let needed = self.ghost.n_undecided(id(session)) + slot.durable.n_untaken();
            if slot.pending < needed as i64 {
                return Err("room was given back while it was in use");
            }
            if let Some(machine) = &slot.machine
                && !slot.ended
                && !self.queue.iter().any(|frame| frame.session == session)
                && slot.durable != *machine.state()
            {
                return Err("the fold of the journal differs from the live state");
            }
        }
        Ok(())
    }

    /// What holds when all is still.
    pub(crate) fn check_rest(&self, plan: &Plan) -> Result<(), Violation> {
        for (from, to, count) in &plan.pairs {
            let pair = (id(*from), id(*to));
            let n = |list: Option<usize>| list.unwrap_or(0);
            let queued = n(self.ghost.queued.get(&pair).map(Vec::len));
            let decided = n(self.ghost.decided.get(&pair).map(Vec::len));
            let learned = n(self.ghost.learned.get(&pair).map(Vec::len));
            if decided != queued || queued > usize::from(*count) {
                return Err(NO_OUTCOME);
            }
            if learned != queued {
                return Err("a sender was never told an outcome");
            }
            if self.ghost.dead.get(&pair).unwrap_or(&vec![])
                != self.ghost.noted.get(&pair).unwrap_or(&vec![])
            {
                return Err("a sender was never told of its dead");
            }
        }
        for (session, slot) in self.slots.iter().enumerate() {
            let durable = &slot.durable;
            if slot.pending != durable.n_untaken() as i64 {
                return Err("room is never given back");
            }
            if durable.n_unsettled > 0 || durable.n_untold > 0 || durable.turn.is_some() {
                return Err("work is left undone");
            }
            if plan.ready.contains(&session) && !durable.inbox.is_empty() {
                return Err("mail is never taken");
            }
            let spent = |(_, tried): (_, &u32)| *tried > plan.limits.attempts_max;
            if self.ghost.tried.iter().any(spent) {
                return Err("a message was tried too often");
            }
        }
        Ok(())
    }
}

fn sender_of(mail: &Input) -> Option<usize> {
    match mail {
        Input::Mail { from, .. } => Some(from.as_u128() as usize - 1),
        _ => None,
    }
}
