//! The last answers to "what is the first time after this one?". A search takes longer than the rest of a plan.

use std::sync::Mutex;

use crate::time::Time;

/// How many answers are kept.
const KEPT: usize = 4;

/// The last answers, the latest first.
#[derive(Debug, Default)]
pub(crate) struct RecentTimes(Mutex<[Option<NextTime>; KEPT]>);

/// Holds for every question from the one that was asked up to the answer.
#[derive(Debug, Clone, Copy)]
struct NextTime {
    asked: Time,
    next: Option<Time>,
}

impl NextTime {
    fn holds(&self, after: Time) -> bool {
        self.asked <= after && self.next.is_none_or(|next| after < next)
    }
}

impl RecentTimes {
    /// The first time after `after`: a known one, or what `search` finds. Waits for no other thread: it may have less
    /// of the processor, and a search is short.
    pub(crate) fn next(&self, after: Time, search: impl FnOnce() -> Option<Time>) -> Option<Time> {
        let known = |answers: &[Option<NextTime>; KEPT]| {
            answers.iter().flatten().find(|answer| answer.holds(after)).map(|answer| answer.next)
        };
        if let Some(next) = self.0.try_lock().ok().and_then(|answers| known(&answers)) {
            return next;
        }
        let next = search();
        if let Ok(mut answers) = self.0.try_lock() {
            answers.rotate_right(1);
            answers[0] = Some(NextTime { asked: after, next });
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The multiples of ten below fifty.
    fn search(after: i64) -> Option<Time> {
        Some(Time((after.div_euclid(10) + 1) * 10)).filter(|next| next.0 < 50)
    }

    #[test]
    fn an_answer_is_found_again_between_question_and_answer_only() {
        let recent = RecentTimes::default();
        let mut searches = 0;
        let mut ask = |after: i64| {
            let next = recent.next(Time(after), || {
                searches += 1;
                search(after)
            });
            assert_eq!(next, search(after), "after {after}");
            searches
        };
        // Asked, later, at the answer, before the question.
        assert_eq!([12, 19, 20, 11, 11].map(&mut ask), [1, 1, 2, 3, 3]);
        // Past the last one there is none, at any later time either.
        assert_eq!([45, 44, 1000].map(&mut ask), [4, 5, 5]);
        // Four are kept.
        assert_eq!([-5, -15, -25, 45].map(&mut ask), [6, 7, 8, 8]);
        assert_eq!(ask(12), 9);
    }
}
