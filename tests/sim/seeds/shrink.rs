//! Shrinks a script that breaks an invariant as far as possible: it leaves out events, in halves and one by one, and
//! also jobs, rates and permanent failures, as long as the same invariant is still broken.

use crate::faults::store::StoreFaultRates;
use crate::seeds::play::play;
use crate::seeds::script::Script;

/// How many plays at most: about half a minute.
const MOST: usize = 250;

/// Shrinks `script`, which breaks `rule`.
pub fn shrink(script: &Script, rule: &str) -> Script {
    shorter(script, |script| {
        let outcome = play(script, false);
        let breaks = outcome.broken.iter().any(|broken| broken.rule == rule);
        breaks.then_some(outcome.broke_at).flatten().map(crate::faults::disruption::millis)
    })
}

/// The same with any test, which returns when a script breaks the rule, if it does.
fn shorter(script: &Script, breaks: impl Fn(&Script) -> Option<u64>) -> Script {
    let mut shrinking = Shrinking { best: script.clone(), breaks, plays: 0 };
    loop {
        let before = shrinking.best.clone();
        shrinking.cut_the_end();
        shrinking.leave_out_events();
        shrinking.calm_down();
        if shrinking.best == before || shrinking.plays >= MOST {
            return shrinking.best;
        }
    }
}

struct Shrinking<F> {
    best: Script,
    breaks: F,
    plays: usize,
}

impl<F: Fn(&Script) -> Option<u64>> Shrinking<F> {
    /// Keeps `script` if it breaks the rule as well.
    fn try_out(&mut self, script: Script) -> bool {
        if self.plays >= MOST || script == self.best {
            return false;
        }
        self.plays += 1;
        let breaks = (self.breaks)(&script).is_some();
        if breaks {
            self.best = script;
        }
        breaks
    }

    /// Drops the events after the violation.
    fn cut_the_end(&mut self) {
        self.plays += 1;
        let Some(at) = (self.breaks)(&self.best) else { return };
        let mut script = self.best.clone();
        script.events.retain(|event| event.at <= at);
        if !self.try_out(script) && at > self.best.until {
            let last = self.best.events.last().map_or(0, |event| event.at);
            self.try_out(Script { until: last + 1000, ..self.best.clone() });
        }
    }

    /// In halves, quarters and so on, down to one by one.
    fn leave_out_events(&mut self) {
        let mut size = self.best.events.len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < self.best.events.len() {
                let mut script = self.best.clone();
                script.events.drain(from..(from + size).min(self.best.events.len()));
                if !self.try_out(script) {
                    from += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    /// Drops jobs, rates, drift, and permanent failures.
    fn calm_down(&mut self) {
        self.try_out(Script { rates: StoreFaultRates::default(), ..self.best.clone() });
        let zero: [fn(&mut StoreFaultRates); 5] = [
            |rates| rates.lose_before = 0,
            |rates| rates.lose_after = 0,
            |rates| rates.refuse = 0,
            |rates| rates.slow = (0, 0),
            |rates| rates.read_fails = 0,
        ];
        for zero in zero {
            let mut script = self.best.clone();
            zero(&mut script.rates);
            self.try_out(script);
        }
        self.try_out(Script { drift: 0, ..self.best.clone() });
        for at in (0..self.best.dead.len()).rev() {
            let mut script = self.best.clone();
            script.dead.remove(at);
            self.try_out(script);
        }
        for at in (0..self.best.jobs.len()).rev() {
            let mut script = self.best.clone();
            script.jobs.remove(at);
            if !script.jobs.is_empty() {
                self.try_out(script);
            }
        }
    }
}

/// Two events that only together break the rule are left.
#[test]
fn what_does_not_matter_is_left_out() {
    let script = Script::of(11);
    let (first, second) = (script.events[3].clone(), script.events[script.events.len() - 2].clone());
    let short = shorter(&script, |script| {
        let both = script.events.contains(&first) && script.events.contains(&second);
        both.then_some(second.at)
    });
    assert_eq!(short.events, [first.clone(), second.clone()]);
    assert_eq!((short.rates, short.drift, short.jobs.len()), (StoreFaultRates::default(), 0, 1));
}
