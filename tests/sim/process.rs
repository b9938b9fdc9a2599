//! A process of the simulated world: a future that can be frozen (it is not polled, as under SIGSTOP) and killed
//! (it is dropped at once, whatever it was about to do).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The hand on a process.
#[derive(Clone, Default)]
pub struct Hand(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    frozen: bool,
    killed: bool,
    wakers: Vec<Waker>,
}

impl Hand {
    pub fn freeze(&self, frozen: bool) {
        self.change(|inner| inner.frozen = frozen);
    }

    pub fn kill(&self) {
        self.change(|inner| inner.killed = true);
    }

    pub fn is_frozen(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).frozen
    }

    pub fn is_killed(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).killed
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut inner);
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Runs `process` under this hand; `None`: it was killed.
    pub fn hold<F: Future>(&self, process: F) -> Held<F> {
        Held { hand: self.clone(), process: Some(Box::pin(process)) }
    }
}

/// A process under a hand.
pub struct Held<F> {
    hand: Hand,
    process: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Held<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        {
            let mut inner = self.hand.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !inner.killed {
                if !inner.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    inner.wakers.push(context.waker().clone());
                }
                if inner.frozen {
                    return Poll::Pending;
                }
            }
        }
        if self.hand.is_killed() {
            self.process = None;
            return Poll::Ready(None);
        }
        match self.process.as_mut() {
            Some(process) => process.as_mut().poll(context).map(Some),
            None => Poll::Ready(None),
        }
    }
}
