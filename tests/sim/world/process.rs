//! A process of the simulated world: a future that can be frozen (it is not polled, as under SIGSTOP) and killed
//! (it is dropped at once, whatever it was about to do).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Freezes and kills a process.
#[derive(Clone, Default)]
pub struct ProcessControl(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    frozen: bool,
    killed: bool,
    wakers: Vec<Waker>,
}

impl ProcessControl {
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

    /// Runs `process` under this control; `None`: it was killed.
    pub fn run<F: Future>(&self, process: F) -> Controlled<F> {
        Controlled { control: self.clone(), process: Some(Box::pin(process)) }
    }
}

/// A process that a [`ProcessControl`] freezes and kills.
pub struct Controlled<F> {
    control: ProcessControl,
    process: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Controlled<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        {
            let mut inner = self.control.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !inner.killed {
                if !inner.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    inner.wakers.push(context.waker().clone());
                }
                if inner.frozen {
                    return Poll::Pending;
                }
            }
        }
        if self.control.is_killed() {
            self.process = None;
            return Poll::Ready(None);
        }
        match self.process.as_mut() {
            Some(process) => process.as_mut().poll(context).map(Some),
            None => Poll::Ready(None),
        }
    }
}
